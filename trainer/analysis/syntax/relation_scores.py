"""Dependency relations that heads find, against the best fixed offset.

A head predicts the head of each word in one of two directions: as the word to which the
word attends most, or as the word that attends most to it. Its accuracy for a relation
is compared with that of one fixed offset, such as "the previous word", which needs no
syntax.

References:
    - [Clark et al., 2019](https://arxiv.org/abs/1906.04341), section 4.2
    - [Voita et al., 2019](https://arxiv.org/abs/1905.09418), section 5.2
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from transbeam.model.inspect.attention_trees import ROOT
from transbeam.model.inspect.word_attention import share_tokens
from transbeam.trainer.analysis.syntax.treebank import TreebankSentence
from transbeam.trainer.analysis.syntax.word_texts import HeadName, WordMaps
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals

# "to": a word attends to its head; "by": it is attended to by its head.
Direction = Literal["to", "by"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
ALL = "all"  # all relations but those to punctuation
PUNCTUATION = "punct"
# Clark et al. try -3 to 2; a wider choice makes the baseline stronger.
OFFSETS = tuple(offset for offset in range(-5, 6) if offset)


@dataclass(frozen=True)
class RelationScore:
    """The accuracy of a head for a relation.

    Attributes:
        name: The head.
        direction: `to` or `by`.
        relation: The relation, or `all`.
        accuracy: Share of the words in the relation whose head is found.
        baseline: That of the best fixed offset on the same words.
        offset: The offset.
        words: Number of words.
    """

    name: HeadName
    direction: Direction
    relation: str
    accuracy: Interval
    baseline: Interval
    offset: int
    words: int

    @property
    def gain(self) -> float:
        """The accuracy above the baseline."""
        return self.accuracy.score - self.baseline.score

    @property
    def is_found(self) -> bool:
        """True if the interval is above that of the baseline."""
        return self.accuracy.low > self.baseline.high


class RelationCounts:
    """Collects the heads that are found for each word of a treebank.

    Args:
        sentences: The sentences.
        memberships: The tokens of their words, bool (T, W) each.
    """

    def __init__(
        self, sentences: Sequence[TreebankSentence], memberships: Sequence[np.ndarray]
    ) -> None:
        self._sentences = sentences
        self._counted = [
            _find_countable(sentence, membership)
            for sentence, membership in zip(sentences, memberships, strict=True)
        ]
        self._found: dict[int, np.ndarray] = {}

    def add(self, maps: WordMaps) -> None:
        """Adds a batch of sentences."""
        for number, to, by in zip(maps.index.tolist(), maps.to, maps.by, strict=True):
            gold = self._sentences[number].heads
            predicted = np.stack([to, by], axis=1)[..., : len(gold)]  # (H, 2, W)
            correct = predicted.reshape(-1, len(gold)) == gold
            self._found[number] = correct.T[self._counted[number]]

    def scores(
        self, heads: Sequence[HeadName], fewest: int, seed: int
    ) -> list[RelationScore]:
        """Computes the accuracy of each head, direction and relation.

        The intervals are bootstrap intervals over sentences.

        Args:
            heads: The heads, in the order of the maps.
            fewest: Relations with fewer words are left out.
            seed: Seed of the intervals.
        """
        numbers = range(len(self._sentences))
        found = np.concatenate([self._found[number] for number in numbers])
        guesses = np.concatenate([self._guess(number) for number in numbers])
        sizes = [int(counted.sum()) for counted in self._counted]
        sentence = np.repeat(np.arange(len(sizes)), sizes)
        relation = np.concatenate([self._relations(number) for number in numbers])

        columns = [(name, side) for name in heads for side in DIRECTIONS]
        found = np.hstack([found, guesses])
        scores = []
        for kind in [ALL, *np.unique(relation).tolist()]:
            chosen = relation != PUNCTUATION if kind == ALL else relation == kind
            words = int(chosen.sum())
            if words < fewest:
                continue
            ends = _bootstrap(found[chosen], sentence[chosen], len(sizes), seed)
            fixed = ends[len(columns) :]
            best = int(np.argmax([interval.score for interval in fixed]))
            scores += [
                RelationScore(
                    name, side, kind, interval, fixed[best], OFFSETS[best], words
                )
                for (name, side), interval in zip(columns, ends, strict=False)
            ]
        return scores

    def _guess(self, number: int) -> np.ndarray:
        """Returns whether each offset, clamped, is right: bool (words, offsets)."""
        gold = self._sentences[number].heads
        words = np.arange(len(gold))
        guesses = np.clip(words[:, None] + np.array(OFFSETS), 0, len(gold) - 1)
        return (guesses == gold[:, None])[self._counted[number]]

    def _relations(self, number: int) -> np.ndarray:
        return np.array(self._sentences[number].relations)[self._counted[number]]


def _find_countable(sentence: TreebankSentence, membership: np.ndarray) -> np.ndarray:
    """Returns the words whose head can be found in a map of words, bool (W,).

    Left out are the root, words whose tokens or whose head's tokens are none, and words
    that have a token in common with their head.
    """
    heads = sentence.heads
    shares = np.asarray(share_tokens(membership[None]))[0]
    has_tokens = membership.any(axis=0)
    apart = ~shares[np.arange(len(heads)), heads]
    return (heads != ROOT) & has_tokens & has_tokens[heads] & apart


def _bootstrap(
    found: np.ndarray, sentence: np.ndarray, sentences: int, seed: int
) -> list[Interval]:
    """Computes the interval of each column's mean, over sentences."""
    sums = np.zeros((sentences, found.shape[1] + 1))
    np.add.at(sums[:, :-1], sentence, found)
    sums[:, -1] = np.bincount(sentence, minlength=sentences)

    def shares(sums: np.ndarray) -> dict[str, np.ndarray]:
        with np.errstate(invalid="ignore"):  # a resample without the relation
            means = sums[..., :-1] / sums[..., -1:]
        return {str(column): means[..., column] for column in range(means.shape[-1])}

    return list(intervals(sums, shares, seed).values())


def choose_best(scores: Sequence[RelationScore]) -> list[RelationScore]:
    """Returns the score with the highest accuracy of each relation."""
    best: dict[str, RelationScore] = {}
    for score in scores:
        held = best.setdefault(score.relation, score)
        if score.accuracy.score > held.accuracy.score:
            best[score.relation] = score
    return list(best.values())


def tabulate_relations(scores: Sequence[RelationScore]) -> pa.Table:
    """Makes a table with a row per head, direction and relation."""
    return pa.Table.from_pylist(
        [
            {
                "layer": score.name.layer,
                "head": score.name.head,
                "direction": score.direction,
                "relation": score.relation,
                "accuracy": score.accuracy.score,
                "low": score.accuracy.low,
                "high": score.accuracy.high,
                "baseline": score.baseline.score,
                "baseline_offset": score.offset,
                "baseline_low": score.baseline.low,
                "baseline_high": score.baseline.high,
                "words": score.words,
            }
            for score in scores
        ],
        schema=pa.schema(
            [
                ("layer", pa.string()),
                ("head", pa.int32()),
                ("direction", pa.string()),
                ("relation", pa.string()),
                ("accuracy", pa.float64()),
                ("low", pa.float64()),
                ("high", pa.float64()),
                ("baseline", pa.float64()),
                ("baseline_offset", pa.int32()),
                ("baseline_low", pa.float64()),
                ("baseline_high", pa.float64()),
                ("words", pa.int64()),
            ]
        ),
    )
