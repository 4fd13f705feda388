"""Attention trees: the worked example, and the heaviest of all trees."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from transbeam.model.inspect.attention_trees import (
    ROOT,
    choose_strongest_heads,
    count_directed_edges,
    count_undirected_edges,
    find_directed_tree,
    find_undirected_trees,
    grow_attention_tree,
)

# "She saw the old dog"
SAW = np.array(
    [
        [0, 0.6, 0.1, 0.1, 0.2],
        [0.3, 0, 0.1, 0.2, 0.4],
        [0.1, 0.1, 0, 0.5, 0.3],
        [0.05, 0.1, 0.15, 0, 0.7],
        [0.1, 0.5, 0.1, 0.3, 0],
    ]
)
GOLD = np.array([1, ROOT, 4, 4, 1])

# Small integers, so that equal weights are frequent; and negative ones.
MATRICES = st.integers(1, 5).flatmap(
    lambda size: arrays(np.float64, (size, size), elements=st.integers(-2, 5))
)


def edges(heads):
    return {
        frozenset((word, int(head))) for word, head in enumerate(heads) if head != ROOT
    }


def all_trees(size, root):
    """Yields the heads of all trees with a root."""
    others = [word for word in range(size) if word != root]
    for choice in product(range(size), repeat=len(others)):
        heads = dict(zip(others, choice, strict=True))
        if all(reaches(word, root, heads) for word in others):
            yield heads


def reaches(word, root, heads):
    for _ in range(len(heads) + 1):
        if word == root:
            return True
        word = heads[word]
    return False


def weight(heads, weights):
    return sum(weights[word, head] for word, head in heads.items())


def test_undirected_tree_by_hand():
    tree = find_undirected_trees(SAW)
    assert edges(tree) == {frozenset(e) for e in ((3, 4), (1, 4), (0, 1), (2, 3))}
    assert count_undirected_edges(tree, GOLD) == (3, 4)


def test_directed_tree_by_hand():
    tree = find_directed_tree(SAW, root=1)
    assert tree.tolist() == [1, ROOT, 3, 4, 1]
    assert count_directed_edges(tree, GOLD) == (3, 4)


def test_chain_by_hand():
    chain = np.array([ROOT, 0, 1, 2, 3])
    assert count_undirected_edges(chain, GOLD) == (2, 4)


def test_strongest_heads_by_hand():
    assert choose_strongest_heads(SAW).tolist() == [1, 4, 3, 4, 1]
    assert choose_strongest_heads(np.eye(2)).tolist() == [1, 0]


def test_attention_tree_by_hand():
    found = grow_attention_tree(SAW, root=1, children=2, depth=2)
    assert [edge[:2] + edge[3:] for edge in found] == [
        (1, 4, 1),  # .4
        (1, 0, 1),  # .3
        (4, 3, 2),  # .3
        (4, 2, 2),  # .1, as 0 is in the tree already
    ]
    assert [edge.weight for edge in found] == [0.4, 0.3, 0.3, 0.1]


def test_attention_tree_without_levels_or_weights():
    assert grow_attention_tree(SAW, root=0, depth=0) == []
    assert grow_attention_tree(np.zeros((3, 3)), root=0) == []


@given(MATRICES, st.integers(0, 4))
def test_directed_tree_is_the_heaviest(weights, root):
    root %= len(weights)
    found = find_directed_tree(weights, root)
    heads = {word: int(head) for word, head in enumerate(found) if word != root}
    assert found[root] == ROOT
    assert all(reaches(word, root, heads) for word in heads)
    heaviest = max(weight(tree, weights) for tree in all_trees(len(weights), root))
    assert weight(heads, weights) == pytest.approx(heaviest)


@given(MATRICES)
def test_best_root(weights):
    size = len(weights)
    found = find_directed_tree(weights)
    (root,) = np.flatnonzero(found == ROOT)
    heads = {word: int(head) for word, head in enumerate(found) if word != root}
    assert all(reaches(word, root, heads) for word in heads)
    heaviest = max(
        weight(tree, weights) for root in range(size) for tree in all_trees(size, root)
    )
    assert weight(heads, weights) == pytest.approx(heaviest)


@given(MATRICES)
def test_undirected_tree_is_the_heaviest(weights):
    found = find_undirected_trees(weights)
    heads = {word: int(head) for word, head in enumerate(found) if word != 0}
    assert found[0] == ROOT
    assert all(reaches(word, 0, heads) for word in heads)
    both = weights + weights.T
    heaviest = max(weight(tree, both) for tree in all_trees(len(weights), 0))
    assert weight(heads, both) == pytest.approx(heaviest)


def test_undirected_trees_of_many_heads():
    maps = np.random.default_rng(0).dirichlet(np.ones(9), (2, 3, 9))
    trees = find_undirected_trees(maps)
    assert trees.shape == (2, 3, 9)
    for layer in range(2):
        for head in range(3):
            alone = find_undirected_trees(maps[layer, head])
            np.testing.assert_array_equal(trees[layer, head], alone)


def test_nested_cycles_of_a_long_text():
    """Neighbors that attend to each other, and pairs of them, and pairs of those."""
    size = 64
    weights = np.array([[1 / (1 + (i ^ j)) for j in range(size)] for i in range(size)])
    tree = find_directed_tree(weights, root=5)
    heads = {word: int(head) for word, head in enumerate(tree) if word != 5}
    assert all(reaches(word, 5, heads) for word in heads)
    # Symmetric weights: as heavy as the undirected tree, which has no cycles to break.
    other = find_undirected_trees(weights)
    undirected = sum(weights[word, head] for word, head in enumerate(other) if word)
    assert weight(heads, weights) == pytest.approx(undirected)


def test_uncounted_words():
    """A head of `ROOT` is that of the root, or of a word below punctuation."""
    gold = np.array([ROOT, 0, ROOT])
    assert count_directed_edges(np.array([1, 0, ROOT]), gold) == (1, 1)
    assert count_undirected_edges(np.array([1, ROOT, 1]), gold) == (1, 1)
    found, number = count_undirected_edges(np.array([[1, 2, 0], [2, 2, ROOT]]), gold)
    assert (found.tolist(), number) == ([1, 0], 1)
