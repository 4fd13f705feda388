import math

import numpy as np
import pytest

from transbeam.trainer.metrics.language_modeling import (
    BitsPerByte,
    Perplexity,
    TokenAccuracy,
)


def test_perplexity_weighs_tokens_and_not_records():
    # 9 tokens of 1 nat and 1 token of 11: 2 nats a token, not 6.
    statistics = Perplexity().statistics(np.array([9.0, 11.0]), np.array([9, 1]))
    scores = Perplexity().scores(statistics.sum(axis=0))
    assert scores["nats_per_token"] == 2
    assert scores["perplexity"] == math.exp(2)


def test_perplexity_of_equal_chances_is_their_number():
    tokens = np.array([3, 0, 5])
    statistics = Perplexity().statistics(tokens * math.log(8192), tokens)
    scores = Perplexity().scores(statistics.sum(axis=0))
    assert scores["perplexity"] == pytest.approx(8192, rel=1e-12)


def test_a_model_that_diverged_is_infinitely_perplexed():
    scores = Perplexity().scores(np.array([1e6, 1.0]))
    assert scores["perplexity"] == math.inf


def test_nothing_asked_for_has_no_mean():
    assert np.isnan(Perplexity().scores(np.zeros(2))["perplexity"])
    assert np.isnan(TokenAccuracy().scores(np.zeros(2))["accuracy"])


def test_bits_per_byte_does_not_depend_on_how_a_text_is_cut():
    text = "Grüße aus Köln".encode()
    assert len(text) == 17
    # A byte each, of 256 equally likely ones; or one token for all, of 2 ** 136.
    bytewise = BitsPerByte().statistics([17 * math.log(256)], [17])
    at_once = BitsPerByte().statistics([math.log(2**136)], [17])
    for statistics in (bytewise, at_once):
        scores = BitsPerByte().scores(statistics.sum(axis=0))
        assert scores["bits_per_byte"] == pytest.approx(8, rel=1e-12)


def test_accuracy_counts_real_targets_only():
    predictions = np.array([[5, 6, 0], [7, 0, 0]])
    targets = np.array([[5, 9, 0], [7, 0, 0]])
    weights = np.array([[1, 1, 0], [1, 0, 0]], np.float32)
    statistics = TokenAccuracy().statistics(predictions, targets, weights)
    np.testing.assert_array_equal(statistics, [[1, 2], [1, 1]])
    assert TokenAccuracy().scores(statistics.sum(axis=0))["accuracy"] == 2 / 3


def test_a_record_without_targets_keeps_its_row():
    statistics = TokenAccuracy().statistics(
        [[1], [1], [1]], [[1], [2], [1]], [[1], [1], [0]]
    )
    np.testing.assert_array_equal(statistics, [[1, 1], [0, 1], [0, 0]])


def test_shapes_that_numpy_would_make_fit_are_refused():
    with pytest.raises(ValueError, match=r"\(3, 1\).*\(3,\)"):
        TokenAccuracy().statistics(np.ones((3, 1), int), np.ones(3, int))
    with pytest.raises(ValueError, match="one shape"):
        TokenAccuracy().statistics(np.ones((3, 2)), np.ones((3, 2)), np.ones((3, 1)))
