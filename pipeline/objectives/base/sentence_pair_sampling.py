"""Which sentences make a pair of segments, and what the second one is."""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.pipeline.documents.randomness import mix, stage_key, uniform
from transbeam.pipeline.objectives.base.sentences import Sentences

# Documents with more others beside them than this have strangers enough.
ENOUGH = 16


@dataclass(frozen=True)
class SegmentPairs:
    """Pairs of segments, in an order that stirs them.

    Attributes:
        keys: uint64 (N,). A hash of each pair's document and place in it.
        documents: int64 (N, 2). The document of each segment.
        starts: int64 (N, 2). The segment's first token in the row of all ids.
        lengths: int64 (N, 2). Its tokens.
        labels: int32 (N,). 1 if the second segment is not the one that follows.
        left_out: Tokens that are in no pair.
    """

    keys: np.ndarray
    documents: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray
    left_out: int


def choose_pairs(
    sentences: Sentences,
    keys: np.ndarray,
    config: SentencePairsConfig,
    *,
    seed: int,
    capacity: int,
    identities: np.ndarray,
    num_strangers: int = 0,
) -> SegmentPairs:
    """Goes through the documents and makes pairs.

    As many sentences as fit are taken and cut in two at random. If the second segment
    is drawn from another document, the sentences it would have had are taken again.
    Documents of a single sentence have no part in it.

    Args:
        sentences: The sentences; any two have at most `capacity` tokens.
        keys: uint64 (D,). The documents' hashes, from which all chances come.
        config: The task and the share of short pairs.
        seed: The run's seed.
        capacity: Tokens of a pair at most.
        identities: uint64 (D,). Equal for documents that are copies of one another, of
            which no wrong pair is made.
        num_strangers: How many of the documents, the last ones, are there to take
            wrong second segments from, where the others are too few.
    """
    walk = _Walk(sentences, keys, config, seed, capacity, identities, num_strangers)
    for document in walk.documents:
        walk.through(document)
    columns = np.array(walk.rows, np.int64).reshape(-1, 8)
    pair_keys = mix(keys[columns[:, 0]] ^ mix(columns[:, 1].astype(np.uint64)))
    order = np.argsort(pair_keys, kind="stable")
    columns = columns[order]
    return SegmentPairs(
        keys=pair_keys[order],
        documents=columns[:, [0, 4]],
        starts=columns[:, [2, 5]],
        lengths=columns[:, [3, 6]],
        labels=columns[:, 7].astype(np.int32),
        left_out=walk.left_out,
    )


def _ranges_of(identities: np.ndarray, ordered: np.ndarray) -> list[tuple[int, int]]:
    """For each document, where its copies stand among some that are ordered."""
    there = identities[ordered]
    begin = np.searchsorted(there, identities, side="left")
    end = np.searchsorted(there, identities, side="right")
    return list(zip(begin.tolist(), end.tolist(), strict=True))


class _Walk:
    """The way through the documents, in the order of their keys.

    Attributes:
        documents: Those with two sentences or more; no other can begin a pair.
        rows: Of each pair: the document, the place in it, start and length of the
            first segment, the document, start and length of the second, the label.
        left_out: Tokens of sentences that were left alone at a document's end.
    """

    def __init__(
        self,
        sentences: Sentences,
        keys: np.ndarray,
        config: SentencePairsConfig,
        seed: int,
        capacity: int,
        identities: np.ndarray,
        num_strangers: int,
    ) -> None:
        num_own = len(keys) - num_strangers
        by_key = np.argsort(keys[:num_own], kind="stable")
        self.documents = by_key[sentences.per_document[by_key] > 1].tolist()
        others = self.documents
        if num_strangers and len(np.unique(identities[others])) <= ENOUGH:
            # Those without a token have nothing to give.
            others = num_own + np.flatnonzero(sentences.per_document[num_own:])
        self._others = np.asarray(others, np.int64)
        self._others = self._others[np.argsort(identities[self._others], kind="stable")]
        self._ranges = _ranges_of(identities, self._others)
        self.rows: list[tuple[int, ...]] = []
        self.left_out = 0
        self._edges: list[int] = sentences.edges.tolist()
        self._first: list[int] = sentences.first.tolist()
        self._config, self._capacity = config, capacity

        owner = np.repeat(np.arange(len(keys)), sentences.per_document)
        place = np.arange(len(owner)) - sentences.first[owner]

        def draw(purpose: str) -> list[float]:
            key = stage_key(seed, f"pairs/{purpose}")
            return uniform(key, keys[owner], place).tolist()

        # One chance of each kind for each sentence a pair may begin with.
        self._is_short, self._short = draw("is short"), draw("short")
        self._cut, self._wrong = draw("cut"), draw("wrong")
        self._other, self._begin = draw("other"), draw("begin")

    def through(self, document: int) -> None:
        """Makes the pairs of one document."""
        here, stop = self._first[document], self._first[document + 1]
        while stop - here >= 2:
            here = self._pair(document, here, stop)
        self.left_out += self._edges[stop] - self._edges[here]

    def _pair(self, document: int, here: int, stop: int) -> int:
        """Makes the pair that begins with a sentence; returns where to go on."""
        edges = self._edges
        aim = self._capacity
        if self._is_short[here] < self._config.short_fraction:
            aim = 2 + int(self._short[here] * (self._capacity - 1))
        after = self._fitting(here, stop, aim, at_least=2)
        cut = here + 1 + int(self._cut[here] * (after - here - 1))
        start, length = edges[here], edges[cut] - edges[here]
        second = (document, edges[cut], edges[after] - edges[cut])
        wrong = self._wrong[here] < 0.5
        if wrong and self._config.task == "next_sentence":
            other = self._other_than(document, here)
            if other is None:
                wrong = False  # the only document there is has no other beside it
            else:
                most = self._capacity - length
                second = self._elsewhere(other, here, aim - length, most)
                after = cut
        first = (document, here - self._first[document], start, length)
        if wrong and self._config.task == "sentence_order":
            first = (*first[:2], second[1], second[2])
            second = (document, start, length)
        self.rows.append((*first, *second, int(wrong)))
        return after

    def _other_than(self, document: int, here: int) -> int | None:
        """Another document, if there is one, that is no copy of this one."""
        begin, end = self._ranges[document]
        number = len(self._others) - (end - begin)
        if not number:
            return None
        drawn = int(self._other[here] * number)
        return int(self._others[drawn if drawn < begin else drawn + end - begin])

    def _elsewhere(
        self, document: int, here: int, aim: int, most: int
    ) -> tuple[int, int, int]:
        """Document, start and length of a segment of another document."""
        begin, stop = self._first[document], self._first[document + 1]
        begin += int(self._begin[here] * (stop - begin))
        after = self._fitting(begin, stop, aim, at_least=1)
        start = self._edges[begin]
        return document, start, min(self._edges[after] - start, most)

    def _fitting(self, here: int, stop: int, tokens: int, *, at_least: int) -> int:
        """Where as many sentences end as have so many tokens."""
        limit = self._edges[here] + tokens
        least = here + at_least
        return max(bisect_right(self._edges, limit, least, stop + 1) - 1, least)
