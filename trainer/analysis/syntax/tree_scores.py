"""Dependency trees in the attention of heads, against trees without a model.

References:
    - [Htut et al., 2019](https://arxiv.org/abs/1911.12246), section 4
    - [Raganato & Tiedemann, 2018](https://aclanthology.org/W18-5431), section 4
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from transbeam.configs.base.errors import DataError
from transbeam.model.inspect.attention_trees import (
    ROOT,
    EdgeCounts,
    count_directed_edges,
    count_undirected_edges,
    find_directed_tree,
    find_undirected_trees,
)
from transbeam.trainer.analysis.syntax.relation_scores import DIRECTIONS, Direction
from transbeam.trainer.analysis.syntax.treebank import TreebankSentence
from transbeam.trainer.analysis.syntax.word_texts import HeadName, WordMaps
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals

CHAIN, RIGHT, LEFT, FROM_ROOT = (
    "chain",
    "right-branching",
    "left-branching",
    "chain from the root",
)
PUNCTUATION_TAG = "PUNCT"


class GoldTree(NamedTuple):
    """The dependency tree of a sentence without its punctuation.

    Attributes:
        words: Indices of the words in the sentence, int64 (N,).
        heads: int64 (N,). Index of each head among `words`; `ROOT` for the root, and
            for words below punctuation, whose edges are not counted.
        root: Index of the root among `words`.
    """

    words: np.ndarray
    heads: np.ndarray
    root: int


class TreeScore(NamedTuple):
    """The agreement of trees with gold trees, over all edges.

    Attributes:
        name: The head, or the name of a tree that needs no model.
        direction: Of a directed tree from attention: `to` if words attend to their
            heads, `by` if they are attended to by them.
        measure: `UUAS` or `UAS`.
        score: The share of gold edges that were found.
        edges: Number of gold edges.
    """

    name: HeadName | str
    direction: Direction | None
    measure: str
    score: Interval
    edges: int


def remove_punctuation(sentence: TreebankSentence) -> GoldTree | None:
    """Returns the tree without punctuation; None if it has no edge left.

    Example:
    >>> sentence = TreebankSentence(
    ...     text="No, stop",
    ...     offsets=((0, 2), (2, 3), (4, 8)),
    ...     tags=("INTJ", "PUNCT", "VERB"),
    ...     heads=np.array([2, 2, ROOT]),
    ...     relations=("discourse", "punct", "root"),
    ... )
    >>> remove_punctuation(sentence)
    GoldTree(words=array([0, 2]), heads=array([ 1, -1]), root=1)
    """
    words = np.flatnonzero(np.array(sentence.tags) != PUNCTUATION_TAG)
    if sentence.root not in words:
        return None
    index = np.full(len(sentence.tags) + 1, ROOT)  # its last entry is that of `ROOT`
    index[words] = np.arange(len(words))
    heads = index[sentence.heads[words]]
    return (
        None
        if (heads == ROOT).all()
        else GoldTree(words, heads, int(index[sentence.root]))
    )


class TreeCounts:
    """Counts the edges of undirected trees of all heads, and of trees of no model.

    Args:
        sentences: The sentences.
    """

    def __init__(self, sentences: Sequence[TreebankSentence]) -> None:
        self._trees = [remove_punctuation(sentence) for sentence in sentences]
        self._counts: dict[int, EdgeCounts] = {}

    def add(self, maps: WordMaps) -> None:
        """Adds a batch of sentences."""
        for gold, number, words in _with_gold(self._trees, maps):
            trees = find_undirected_trees(words)
            self._counts[number] = count_undirected_edges(trees, gold.heads)

    def scores(self, heads: Sequence[HeadName], seed: int) -> list[TreeScore]:
        """Computes the UUAS of each head; intervals are over sentences.

        Raises:
            DataError: No sentence has an edge without punctuation.
        """
        return _scores(heads, [None] * len(heads), "UUAS", self._counts.values(), seed)

    def baselines(self, seed: int) -> list[TreeScore]:
        """Computes the scores of trees that only depend on the order of words."""
        trees = [gold for gold in self._trees if gold is not None]
        undirected = [_count(gold, count_undirected_edges, _chain) for gold in trees]
        directed = [
            _count(gold, count_directed_edges, _chain, _reversed_chain, _rooted_chain)
            for gold in trees
        ]
        return [
            *_scores([CHAIN], [None], "UUAS", undirected, seed),
            *_scores([RIGHT, LEFT, FROM_ROOT], [None] * 3, "UAS", directed, seed),
        ]


class DirectedTreeCounts:
    """Counts the edges of directed trees, from the gold root, of a few heads.

    Args:
        sentences: The sentences.
        heads: Indices of the heads in the maps.
    """

    def __init__(
        self, sentences: Sequence[TreebankSentence], heads: Sequence[int]
    ) -> None:
        self._trees = [remove_punctuation(sentence) for sentence in sentences]
        self._heads = list(heads)
        self._counts: dict[int, EdgeCounts] = {}

    def add(self, maps: WordMaps) -> None:
        """Adds a batch of sentences."""
        maps = maps._replace(words=maps.words[:, self._heads])
        for gold, number, words in _with_gold(self._trees, maps):
            both = np.stack([words, words.swapaxes(-1, -2)], axis=1)
            both = both.reshape(-1, *words.shape[1:])
            trees = np.stack([find_directed_tree(one, gold.root) for one in both])
            self._counts[number] = count_directed_edges(trees, gold.heads)

    def scores(self, heads: Sequence[HeadName], seed: int) -> list[TreeScore]:
        """Computes the UAS of each head and direction; intervals are over sentences."""
        names = [heads[index] for index in self._heads for _ in DIRECTIONS]
        directions = [side for _ in self._heads for side in DIRECTIONS]
        return _scores(names, directions, "UAS", self._counts.values(), seed)


def _with_gold(
    trees: Sequence[GoldTree | None], maps: WordMaps
) -> Iterable[tuple[GoldTree, int, np.ndarray]]:
    """Yields gold trees with the maps of their words, (H, N, N)."""
    for number, words in zip(maps.index.tolist(), maps.words, strict=True):
        gold = trees[number]
        if gold is not None:
            yield gold, number, words[:, gold.words][:, :, gold.words]


def _count(gold: GoldTree, count: Callable[..., EdgeCounts], *makers) -> EdgeCounts:
    trees = np.stack([make(gold) for make in makers])
    return count(trees, gold.heads)


def _chain(gold: GoldTree) -> np.ndarray:
    """Each word's head is the previous word."""
    return np.arange(-1, len(gold.heads) - 1)


def _reversed_chain(gold: GoldTree) -> np.ndarray:
    """Each word's head is the next word."""
    heads = np.arange(1, len(gold.heads) + 1)
    heads[-1] = ROOT
    return heads


def _rooted_chain(gold: GoldTree) -> np.ndarray:
    """Each word's head is the neighbor on the side of the gold root."""
    words = np.arange(len(gold.heads))
    return words + np.sign(gold.root - words)


def _scores(
    names: Sequence[HeadName | str],
    directions: Sequence[Direction | None],
    measure: str,
    counts: Iterable[EdgeCounts],
    seed: int,
) -> list[TreeScore]:
    sums = np.array([[*one.found, one.edges] for one in counts], np.float64)
    if not len(sums):
        raise DataError(
            "treebank: no sentence that fits into the model has an edge between two "
            "words; UUAS leaves punctuation out. Give a larger treebank"
        )

    def shares(sums: np.ndarray) -> dict[str, np.ndarray]:
        return {str(i): sums[..., i] / sums[..., -1] for i in range(len(names))}

    found = intervals(sums, shares, seed).values()
    edges = int(sums[:, -1].sum())
    return [
        TreeScore(name, side, measure, score, edges)
        for name, side, score in zip(names, directions, found, strict=True)
    ]


def tabulate_trees(scores: Sequence[TreeScore]) -> pa.Table:
    """Makes a table with a row per tree; layer and head are null without a model."""
    rows: list[dict[str, Any]] = []
    for name, direction, measure, score, edges in scores:
        is_head = isinstance(name, HeadName)
        rows.append(
            {
                "tree": "attention" if is_head else name,
                "layer": name.layer if is_head else None,
                "head": name.head if is_head else None,
                "direction": direction,
                "measure": measure,
                "score": score.score,
                "low": score.low,
                "high": score.high,
                "edges": edges,
            }
        )
    columns = {"tree": pa.string(), "layer": pa.string(), "head": pa.int32()}
    columns |= {"direction": pa.string(), "measure": pa.string()}
    columns |= dict.fromkeys(("score", "low", "high"), pa.float64())
    return pa.Table.from_pylist(rows, pa.schema({**columns, "edges": pa.int64()}))
