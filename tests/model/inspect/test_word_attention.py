"""Attention between words: by hand, against a loop, and for words of any tokens."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from transbeam.model.inspect.word_attention import (
    NO_WORD,
    find_most_attended,
    merge_words,
    share_tokens,
    word_membership,
)

# A | B1 B2
ROWS = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3], [0.2, 0.4, 0.4]])
MEMBERSHIP = np.array([[1, 0], [0, 1], [0, 1]])


def merge(rows, membership):
    return ops.convert_to_numpy(merge_words(rows[None, None], membership[None]))[0, 0]


def most_attended(words, membership):
    found = find_most_attended(words[None, None], membership[None])
    return [ops.convert_to_numpy(part)[0, 0].tolist() for part in found]


def test_columns_are_summed_and_rows_averaged():
    """The row of the first piece alone would be (.6, .4)."""
    np.testing.assert_allclose(merge(ROWS, MEMBERSHIP), [[0.2, 0.8], [0.4, 0.6]])


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_against_a_loop_over_words(seed):
    generator = np.random.default_rng(seed)
    tokens, words = generator.integers(1, 7, 2)
    rows = generator.dirichlet(np.ones(tokens), tokens)
    membership = generator.integers(0, 2, (tokens, words))
    expected = np.zeros((words, words))
    for i in range(words):
        for j in range(words):
            queries = np.flatnonzero(membership[:, i])
            keys = np.flatnonzero(membership[:, j])
            if len(queries):
                expected[i, j] = rows[np.ix_(queries, keys)].sum() / len(queries)
    np.testing.assert_allclose(merge(rows, membership), expected, atol=1e-6)


def test_rows_sum_to_one_if_all_tokens_are_of_one_word():
    np.testing.assert_allclose(merge(ROWS, MEMBERSHIP).sum(axis=-1), 1.0, rtol=1e-6)


def test_heads_and_rows_of_a_batch_stay_apart():
    generator = np.random.default_rng(0)
    maps = generator.dirichlet(np.ones(4), (2, 3, 4))
    membership = generator.integers(0, 2, (2, 4, 3))
    merged = ops.convert_to_numpy(merge_words(maps, membership))
    assert merged.shape == (2, 3, 3, 3)
    for b in range(2):
        for h in range(3):
            expected = merge(maps[b, h], membership[b])
            np.testing.assert_allclose(merged[b, h], expected, atol=1e-6)


def test_padding_changes_nothing():
    rows = np.zeros((5, 5))
    rows[:3, :3], rows[3:] = ROWS, 0.2  # rows of padding have weights
    membership = np.zeros((5, 4), int)
    membership[:3, :2] = MEMBERSHIP
    padded = merge(rows, membership)
    np.testing.assert_allclose(padded[:2, :2], merge(ROWS, MEMBERSHIP))
    assert not padded[2:].any()
    assert not padded[:, 2:].any()
    assert most_attended(padded, membership) == [[1, 0, NO_WORD, NO_WORD]] * 2


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([(0, 2), (2, 5), (6, 8)], [[1, 0], [1, 0], [0, 1]]),  # "##"
        ([(0, 5), (5, 8)], [[1, 0], [0, 1]]),  # " word" with its space
        ([(0, 0), (0, 5), (6, 8)], [[0, 0], [1, 0], [0, 1]]),  # "▁" alone
        ([(0, 7), (7, 8)], [[1, 1], [0, 1]]),  # a token of two words
        ([(4, 5), (4, 5)], [[1, 0], [1, 0]]),  # a character in several tokens
        ([(5, 6)], [[0, 0]]),  # a space
    ],
)
def test_membership_comes_from_offsets(tokens, expected):
    found = word_membership(tokens, [(0, 5), (6, 8)])
    np.testing.assert_array_equal(found, expected)


def test_no_tokens_and_no_words():
    assert word_membership([], [(0, 1)]).shape == (0, 1)
    assert word_membership([(0, 1)], []).shape == (1, 0)


def test_a_word_is_not_compared_with_itself():
    words = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.3, 0.1, 0.6]])
    assert most_attended(words, np.eye(3)) == [[1, 0, 0], [2, 0, NO_WORD]]


def test_words_of_one_token_are_not_compared():
    """Of `cannot` as one token, the weight between its words is that to itself."""
    membership = np.array([[1, 1, 0], [0, 0, 1]])
    shares = ops.convert_to_numpy(share_tokens(membership[None]))[0]
    assert shares.tolist() == [[True, True, False]] * 2 + [[False, False, True]]
    words = merge(np.array([[0.9, 0.1], [0.5, 0.5]]), membership)
    assert most_attended(words, membership)[0] == [2, 2, 0]


def test_the_first_word_of_a_causal_model_finds_none():
    words = np.tril(np.full((3, 3), 1 / 3))
    to, by = most_attended(words, np.eye(3))
    assert to == [NO_WORD, 0, 0]
    assert by == [1, 2, NO_WORD]
