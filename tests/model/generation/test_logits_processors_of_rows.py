"""Penalties, biases and n-grams of each row, by hand and by an independent program."""

import numpy as np
import pytest
from keras import ops

from tests.model.compiling import compiled
from tests.model.generation.numpy_logits_processors import by_numpy
from transbeam.model.generation.logits_processors import (
    NEVER,
    GeneratedRows,
    RowLogitsProcessor,
    add_biases,
    adjust,
    ban_ngrams,
    penalise,
)

X = 4  # stands where nothing counts


def texts_of(rows, width):
    """Rows that end in one column, and what does not count on both sides."""
    longest = max(map(len, rows))
    token_ids = np.full((len(rows), width), X, np.int32)
    real = np.zeros((len(rows), width), bool)
    for row, tokens in enumerate(rows):
        token_ids[row, longest - len(tokens) : longest] = tokens
        real[row, longest - len(tokens) : longest] = True
    length = ops.convert_to_tensor(longest, "int32")
    return GeneratedRows(ops.array(token_ids), ops.array(real), length)


def adjusted(scores, wanted, texts):
    """The scores, by a compiled function."""

    def function(scores, *columns):
        wanted = RowLogitsProcessor(*columns)
        return adjust(scores, wanted, lambda: texts, wanted.any())

    return ops.convert_to_numpy(compiled(function)(scores, *wanted))


def none(rows):
    """Rows that ask for nothing."""
    return RowLogitsProcessor(
        ops.ones((rows,)),
        ops.zeros((rows,), "int32"),
        ops.zeros((rows, 2), "int32"),
        ops.zeros((rows, 2)),
    )


def test_a_penalty_is_of_what_is_there_in_each_row():
    texts = texts_of([[1], [2, 3, 2]], 5)
    scores = ops.array([[1.0, 1.0, -1.0, 1.0, 1.0], [1.0, 1.0, -1.0, 3.0, 1.0]])
    found = penalise(scores, ops.array([2.0, 4.0]), texts)
    expected = [[1, 0.5, -1, 1, 1], [1, 1, -4, 0.75, 1]]
    assert ops.convert_to_numpy(found).tolist() == expected


def test_biases_of_one_token_add_up():
    ids, biases = ops.array([[1, 1, 3], [0, 0, 0]]), ops.array([[1.0, 2, -5], [0] * 3])
    found = add_biases(ops.ones((2, 4)), ids, biases)
    assert ops.convert_to_numpy(found).tolist() == [[1, 4, 1, -4], [1, 1, 1, 1]]


@pytest.mark.parametrize(
    ("tokens", "size", "ruled_out"),
    [
        ([0, 1, 0], 0, set()),
        ([0, 1, 0], 1, {0, 1}),
        ([0, 1, 0], 2, {1}),
        ([0, 1, 0], 3, set()),
        ([0, 1, 2, 0, 1], 3, {2}),
        ([0, 1, 2, 3, 1, 2], 3, {3}),  # not after 0, 1
        ([0, 1, 2, 3, 1, 2], 4, set()),
        ([1, 0, 2, 0, 3, 0], 2, {2, 3}),
        ([1, 1, 1], 2, {1}),
        ([1, 1, 1], 3, {1}),
        ([1, 1, 1], 4, set()),
        ([2], 2, set()),
        ([0, 1], 2**31 - 1, set()),
    ],
)
def test_what_would_repeat_an_n_gram(tokens, size, ruled_out):
    # A longer neighbour, so that something stands before and behind.
    texts = texts_of([tokens, [3, 0, 1] * 3], 11)
    scores = ban_ngrams(ops.zeros((2, 5)), ops.array([size, 0]), texts)
    banned = ops.convert_to_numpy(scores) == np.float32(NEVER)
    assert set(np.flatnonzero(banned[0])) == ruled_out
    assert not banned[1].any()


def test_the_order_of_the_three():
    texts = texts_of([[0, 1, 0]], 3)
    wanted = RowLogitsProcessor(
        ops.array([2.0]),
        ops.array([2]),
        ops.array([[0, 1]]),
        ops.array([[-3.0, 100.0]]),
    )
    scores = adjusted(ops.array([[4.0, 4.0, 4.0]]), wanted, texts)
    # Divided, then added to; and what would repeat 0, 1 is out whatever was added.
    assert scores.tolist() == [[-1.0, np.float32(NEVER), 4.0]]


def drawn(seed):
    random = np.random.default_rng(seed)
    number, vocabulary = 6, 5
    rows = [
        random.integers(0, 4, random.integers(1, 20)).tolist() for _ in range(number)
    ]
    scores = random.normal(size=(number, vocabulary)).astype(np.float32)
    penalties = random.choice([1.0, 0.5, 1.3, 4.0], number).astype(np.float32)
    sizes = random.integers(0, 5, number).astype(np.int32)
    ids = random.integers(0, vocabulary, (number, 3)).astype(np.int32)
    biases = random.choice([0.0, -2.0, 7.5], (number, 3)).astype(np.float32)
    return rows, scores, RowLogitsProcessor(penalties, sizes, ids, biases)


@pytest.mark.parametrize("seed", range(8))
def test_rows_side_by_side_are_what_the_definitions_say(seed):
    rows, scores, wanted = drawn(seed)
    texts = texts_of(rows, 24)
    pairs = [list(zip(*both, strict=True)) for both in zip(*wanted[2:], strict=True)]
    expected = by_numpy(scores, rows, *wanted[:2], pairs)
    found = adjusted(scores, wanted, texts)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_who_asks_for_nothing_gets_the_scores_as_they_are():
    scores = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    texts = texts_of([[1], [2, 3]], 4)
    for wanted in (none(2), none(2)._replace(no_repeat_ngram_size=ops.array([0, 9]))):
        found = adjusted(scores, wanted, texts)
        assert found.tolist() == scores.tolist()
