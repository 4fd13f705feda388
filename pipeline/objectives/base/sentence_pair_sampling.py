"""Samples pairs of segments for sentence-pair objectives."""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.pipeline.documents.randomness import mix, stage_key, uniform
from transbeam.pipeline.objectives.base.sentences import Sentences

# A part with more documents than this needs no documents of other parts as negatives.
ENOUGH = 16


@dataclass(frozen=True)
class SegmentPairs:
    """Pairs of segments, in shuffled order.

    Attributes:
        keys: uint64 (N,). A hash of each pair's document and of the pair's position in
            it.
        documents: int64 (N, 2). The document of each segment.
        starts: int64 (N, 2). The index of the segment's first token among all ids.
        lengths: int64 (N, 2). The segment's number of tokens.
        labels: int32 (N,). 1 if the second segment does not follow the first.
        left_out: The number of tokens that are in no pair.
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
    num_negatives: int = 0,
) -> SegmentPairs:
    """Samples pairs from the documents.

    For each pair, as many consecutive sentences as fit into the pair's length are taken
    from a document and split into two segments at random. If the second segment is
    drawn from another document, the sentences that it replaces are used again.
    Documents of a single sentence are skipped.

    Args:
        sentences: The sentences of all documents; any two together have at most
            `capacity` tokens.
        keys: uint64 (D,). The documents' hashes, which seed all random numbers.
        config: Configuration with the pair-labeling task and the share of short pairs.
        seed: The run's seed.
        capacity: The maximum number of tokens of a pair.
        identities: uint64 (D,). An identifier per document; copies of a document have
            the same identifier and are never paired as negatives.
        num_negatives: The number of documents at the end of `sentences` that serve only
            as a source of negative second segments, if there are too few other
            documents.
    """
    walk = _Walk(sentences, keys, config, seed, capacity, identities, num_negatives)
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


def _copy_ranges(identities: np.ndarray, ordered: np.ndarray) -> list[tuple[int, int]]:
    """Returns, for each document, the range of its copies among sorted documents."""
    there = identities[ordered]
    begin = np.searchsorted(there, identities, side="left")
    end = np.searchsorted(there, identities, side="right")
    return list(zip(begin.tolist(), end.tolist(), strict=True))


class _Walk:
    """Samples pairs while iterating over the documents in the order of their keys.

    Attributes:
        documents: The documents with two or more sentences, which can begin a pair.
        rows: For each pair: the index of the first segment's document, the pair's
            position in the document, the segment's start and length; then document,
            start and length of the second segment; then the label.
        left_out: The number of tokens in the last sentences of `documents`, as far as
            these sentences are in no pair.
    """

    def __init__(
        self,
        sentences: Sentences,
        keys: np.ndarray,
        config: SentencePairsConfig,
        seed: int,
        capacity: int,
        identities: np.ndarray,
        num_negatives: int,
    ) -> None:
        num_own = len(keys) - num_negatives
        by_key = np.argsort(keys[:num_own], kind="stable")
        self.documents = by_key[sentences.per_document[by_key] > 1].tolist()
        others = self.documents
        if num_negatives and len(np.unique(identities[others])) <= ENOUGH:
            # Only those with at least one token.
            others = num_own + np.flatnonzero(sentences.per_document[num_own:])
        self._others = np.asarray(others, np.int64)
        self._others = self._others[np.argsort(identities[self._others], kind="stable")]
        self._ranges = _copy_ranges(identities, self._others)
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

        # One random number of each kind per sentence with which a pair may begin.
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
        """Makes a pair that starts at a sentence; returns the next sentence's index."""
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
                wrong = False  # there is no other document
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
        """Draws a document that is not a copy of the given one, or returns None."""
        begin, end = self._ranges[document]
        number = len(self._others) - (end - begin)
        if not number:
            return None
        drawn = int(self._other[here] * number)
        return int(self._others[drawn if drawn < begin else drawn + end - begin])

    def _elsewhere(
        self, document: int, here: int, aim: int, most: int
    ) -> tuple[int, int, int]:
        """Draws a segment of another document: returns document, start and length."""
        begin, stop = self._first[document], self._first[document + 1]
        begin += int(self._begin[here] * (stop - begin))
        after = self._fitting(begin, stop, aim, at_least=1)
        start = self._edges[begin]
        return document, start, min(self._edges[after] - start, most)

    def _fitting(self, here: int, stop: int, tokens: int, *, at_least: int) -> int:
        """Returns the end of the sentences from `here` that fit into `tokens`."""
        limit = self._edges[here] + tokens
        least = here + at_least
        return max(bisect_right(self._edges, limit, least, stop + 1) - 1, least)
