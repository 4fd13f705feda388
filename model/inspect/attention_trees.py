"""Trees from the attention between words, and their agreement with gold trees.

All functions take the weights of one text: a row per word that attends, a column per
word that is attended to, without words of padding. Punctuation counts as a word: leave
it out of the weights and of the gold tree to compute UAS and UUAS as they are defined.

References:
    - [Htut et al., 2019](https://arxiv.org/abs/1911.12246), section 4: edges of the
      largest weights, and maximum spanning trees
    - [Hewitt & Manning, 2019](https://aclanthology.org/N19-1419), section 4.1: UUAS
    - [McDonald et al., 2005](https://aclanthology.org/H05-1066): directed trees
"""

from typing import NamedTuple

import numpy as np

# The head of a root.
ROOT = -1


class TreeEdge(NamedTuple):
    """An edge of an attention tree.

    Attributes:
        parent: Index of the word that attends.
        child: Index of the word that is attended to.
        weight: The weight.
        depth: The child's distance from the root, from 1.
    """

    parent: int
    child: int
    weight: float
    depth: int


def grow_attention_tree(
    weights: np.ndarray, root: int, children: int = 3, depth: int = 2
) -> list[TreeEdge]:
    """Grows the tree of the words that a word attends to most, level by level.

    A word is in the tree once: below the first word that reaches it.

    Args:
        weights: `(W, W)`.
        root: Index of the word at the root.
        children: Largest number of children of a word.
        depth: Number of levels below the root.

    Returns:
        The edges, level by level; children of a word by descending weight. Edges of
        weight zero are left out.

    Example:
    >>> weights = np.array([[0.1, 0.6, 0.3], [0.2, 0.3, 0.5], [0.9, 0.1, 0.0]])
    >>> for edge in grow_attention_tree(weights, root=0, children=1):
    ...     print(edge)
    TreeEdge(parent=0, child=1, weight=0.6, depth=1)
    TreeEdge(parent=1, child=2, weight=0.5, depth=2)
    """
    edges: list[TreeEdge] = []
    level, seen = [root], {root}
    for number in range(1, depth + 1):
        reached = []
        for parent in level:
            order = np.argsort(-weights[parent], kind="stable").tolist()
            new = [c for c in order if c not in seen and weights[parent, c] > 0]
            for child in new[:children]:
                weight = float(weights[parent, child])
                edges.append(TreeEdge(parent, child, weight, number))
                seen.add(child)
                reached.append(child)
        level = reached
    return edges


def choose_strongest_heads(weights: np.ndarray) -> np.ndarray:
    """Returns for each word the other word to which it attends most.

    The edges need not be a tree.

    Args:
        weights: `(..., W, W)`, at least two words.

    Returns:
        int64 `(..., W)`.

    Example:
    >>> choose_strongest_heads(np.array([[0.9, 0.1], [0.2, 0.8]]))
    array([1, 0])
    """
    return np.argmax(_without_self(weights), axis=-1)


def find_undirected_trees(weights: np.ndarray) -> np.ndarray:
    """Finds the maximum spanning trees of `weights + weightsᵀ`.

    Prim's algorithm runs for all matrices at once: word by word, each tree grows by the
    word with the strongest edge to it.

    Args:
        weights: `(..., W, W)`, such as those of all heads.

    Returns:
        int64 `(..., W)`: the trees, as the other end of an edge of each word; `ROOT`
        for the first word, at which each tree begins to grow.

    Example:
    >>> weights = np.array([[0.0, 0.1, 0.9], [0.2, 0.0, 0.8], [0.5, 0.5, 0.0]])
    >>> find_undirected_trees(weights)
    array([-1,  2,  0])
    """
    size = weights.shape[-1]
    both = weights + np.swapaxes(weights, -1, -2)
    both = both.reshape(-1, size, size)
    rows = np.arange(len(both))
    heads = np.full((len(both), size), ROOT)
    # The strongest edge of each word outside of the tree to a word in it.
    ends, strengths = np.zeros_like(heads), both[:, 0].copy()
    strengths[:, 0] = -np.inf
    for _ in range(size - 1):
        word = np.argmax(strengths, axis=-1)
        heads[rows, word] = ends[rows, word]
        strengths[rows, word] = -np.inf
        fresh = both[rows, word]
        is_stronger = (fresh > strengths) & (heads == ROOT)
        is_stronger[:, 0] = False
        ends = np.where(is_stronger, word[:, None], ends)
        strengths = np.where(is_stronger, fresh, strengths)
    return heads.reshape(weights.shape[:-1])


def find_directed_tree(weights: np.ndarray, root: int | None = None) -> np.ndarray:
    """Finds the maximum spanning arborescence: a head for each word but the root.

    This is the algorithm of Chu and Liu, and of Edmonds: each word takes the strongest
    head, and a cycle that results is contracted to one word.

    Args:
        weights: `(W, W)`. A word attends to its head: `weights[word, head]`.
        root: Index of the root; None for the root with which the tree is heaviest.

    Returns:
        int64 `(W,)`: the heads, `ROOT` for the root.

    Example:
    >>> weights = np.array([[0.0, 0.9, 0.1], [0.8, 0.0, 0.2], [0.3, 0.7, 0.0]])
    >>> find_directed_tree(weights, root=2)
    array([ 1,  2, -1])
    >>> find_directed_tree(weights)
    array([ 1, -1,  1])
    """
    size = len(weights)
    if root is not None:
        return _arborescence(_without_self(weights), root)
    # A root above all words, with edges so light that a tree has one of them only.
    span = np.abs(weights).sum() + 1
    above = np.full((size + 1, size + 1), -np.inf)
    above[:size, :size] = _without_self(weights)
    above[:size, size] = -size * span
    heads = _arborescence(above, size)[:size]
    return np.where(heads == size, ROOT, heads)


def _without_self(weights: np.ndarray) -> np.ndarray:
    return np.where(np.eye(weights.shape[-1], dtype=bool), -np.inf, weights)


def _arborescence(weights: np.ndarray, root: int) -> np.ndarray:
    """Finds the heads below a root; a self edge is -inf."""
    heads = np.argmax(weights, axis=1)
    heads[root] = ROOT
    cycle = _find_cycle(heads)
    if not len(cycle):
        return heads
    outside = np.setdiff1d(np.arange(len(weights)), cycle)
    # An edge that enters the cycle at a word replaces the word's edge in the cycle.
    entering = weights[np.ix_(cycle, outside)] - weights[cycle, heads[cycle], None]
    leaving = weights[np.ix_(outside, cycle)]
    entered, left = np.argmax(entering, axis=0), np.argmax(leaving, axis=1)

    last = len(outside)  # the contracted cycle
    smaller = np.full((last + 1, last + 1), -np.inf)
    smaller[:last, :last] = weights[np.ix_(outside, outside)]
    smaller[last, :last] = np.max(entering, axis=0)
    smaller[:last, last] = np.max(leaving, axis=1)
    found = _arborescence(smaller, int(np.flatnonzero(outside == root)[0]))

    names = np.append(outside, ROOT)  # the root's head is index -1
    heads[outside] = np.where(found[:last] == last, cycle[left], names[found[:last]])
    heads[cycle[entered[found[last]]]] = outside[found[last]]
    return heads


def _find_cycle(heads: np.ndarray) -> np.ndarray:
    """Returns the words of a cycle of heads; none if there is no cycle."""
    state = np.zeros(len(heads), np.int64)  # the walk in which a word was seen
    for start in range(len(heads)):
        word = start
        while word != ROOT and not state[word]:
            state[word] = start + 1
            word = int(heads[word])
        if word != ROOT and state[word] == start + 1:
            cycle = [word]
            while (word := int(heads[word])) != cycle[0]:
                cycle.append(word)
            return np.array(cycle)
    return np.array([], np.int64)


class EdgeCounts(NamedTuple):
    """Edges of gold trees, summed over texts: a share is a quotient of sums.

    Attributes:
        found: Number of gold edges that were found, `(...)`.
        edges: Number of gold edges.
    """

    found: np.ndarray
    edges: int


def count_directed_edges(heads: np.ndarray, gold: np.ndarray) -> EdgeCounts:
    """Counts the words with the right head; over all texts, that is the UAS.

    Args:
        heads: int `(..., W)`, the heads of words.
        gold: int `(W,)`, their heads in the gold tree. Words whose head is `ROOT` are
            not counted.

    Example:
    >>> gold = np.array([1, ROOT, 1])
    >>> found, edges = count_directed_edges(np.array([1, ROOT, 0]), gold)
    >>> int(found), edges
    (1, 2)
    """
    counted = gold != ROOT
    return EdgeCounts(((heads == gold) & counted).sum(axis=-1), int(counted.sum()))


def count_undirected_edges(heads: np.ndarray, gold: np.ndarray) -> EdgeCounts:
    """Counts the gold edges that a tree has in either direction.

    The quotient of sums over all texts is the UUAS over all edges, as Hewitt & Liang's
    code computes it; others average the quotients of sentences.

    Args:
        heads: int `(..., W)`, trees of any direction.
        gold: As in `count_directed_edges`.

    Example:
    >>> gold = np.array([1, ROOT, 1])
    >>> found, edges = count_undirected_edges(np.array([ROOT, 0, 0]), gold)
    >>> int(found), edges
    (1, 2)
    """
    counted = gold != ROOT
    reverse = np.take(heads, np.where(counted, gold, 0), axis=-1) == np.arange(
        len(gold)
    )
    found = ((heads == gold) | reverse) & counted
    return EdgeCounts(found.sum(axis=-1), int(counted.sum()))
