"""Attention against numbers worked out by hand and against NumPy."""

import numpy as np
import pytest
from keras import ops

from configs.errors import ConfigError
from model.layers.attention import MultiHeadAttention

# softmax([1 / sqrt(2), 0]): what a token gives to itself, and what to the other,
# when its query and its key are the same unit vector.
OWN, OTHER = 0.669762, 0.330238


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def built(hidden_dim: int, num_heads: int, **options) -> MultiHeadAttention:
    layer = MultiHeadAttention(hidden_dim, num_heads, **options)
    layer.build((None, None, hidden_dim), (None, 1, None))
    return layer


def with_identity_weights(num_heads: int) -> MultiHeadAttention:
    layer = built(2, num_heads)
    layer.set_weights([np.eye(2), np.zeros(2)] * 4)
    return layer


def test_two_tokens_by_hand():
    tokens = np.eye(2, dtype="float32")[np.newaxis]
    outputs = with_identity_weights(num_heads=1)(tokens, np.ones((1, 1, 2), bool))
    expected = [[[OWN, OTHER], [OTHER, OWN]]]
    np.testing.assert_allclose(outputs, expected, atol=1e-6)


def test_a_hidden_token_gives_nothing():
    tokens = np.eye(2, dtype="float32")[np.newaxis]
    mask = np.array([[[True, False]]])
    outputs = with_identity_weights(num_heads=1)(tokens, mask)
    np.testing.assert_allclose(outputs, [[[1, 0], [1, 0]]], atol=1e-6)


def test_heads_see_their_own_slice():
    # Each head sees one number: the first 1 and 0, the second 0 and 1. The query
    # that is 0 scores all alike; the one that is 1 gives e to 1 for itself.
    tokens = np.eye(2, dtype="float32")[np.newaxis]
    outputs = with_identity_weights(num_heads=2)(tokens, np.ones((1, 1, 2), bool))
    e = np.e / (np.e + 1)
    np.testing.assert_allclose(outputs, [[[e, 0.5], [0.5, e]]], atol=1e-6)


def reference(x, mask, weights, num_heads):
    """Loops over batch, head and query; -inf for what is forbidden."""
    qw, qb, kw, kb, vw, vb, ow, ob = weights
    q, k, v = x @ qw + qb, x @ kw + kb, x @ vw + vb
    batch, length, hidden_dim = x.shape
    width = hidden_dim // num_heads
    outputs = np.zeros_like(x)
    for b in range(batch):
        for head in range(num_heads):
            part = slice(head * width, (head + 1) * width)
            for t in range(length):
                scores = k[b, :, part] @ q[b, t, part] / np.sqrt(width)
                scores = np.where(mask[b, t % mask.shape[1]], scores, -np.inf)
                outputs[b, t, part] = softmax(scores) @ v[b, :, part]
    return outputs @ ow + ob


@pytest.mark.parametrize("queries", [1, 5])
def test_against_numpy(queries):
    rng = np.random.default_rng(0)
    layer = built(12, 3)
    weights = [rng.normal(size=w.shape) for w in layer.weights]
    layer.set_weights(weights)
    x = rng.normal(size=(2, 5, 12))
    mask = rng.random((2, queries, 5)) < 0.5
    mask[:, :, 0] = True
    # Scores of some tens and sums of 12 products: 1e-4 of values around ten.
    np.testing.assert_allclose(
        layer(x.astype("float32"), mask), reference(x, mask, weights, 3), atol=1e-4
    )


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_a_query_that_may_see_nothing_stays_finite(policy):
    layer = built(4, 2, dtype=policy)
    layer.set_weights([10 * np.ones(w.shape) for w in layer.weights])
    outputs = layer(np.ones((1, 3, 4), "float32"), np.zeros((1, 3, 3), bool))
    assert np.isfinite(ops.convert_to_numpy(outputs).astype("float32")).all()


def test_a_common_shift_of_the_scores_changes_nothing():
    # The bias of the keys shifts all scores of a query, here by some -100 to 100.
    # A mask that is put in the place of a score, not added to it, would leak.
    rng = np.random.default_rng(0)
    layer = built(4, 1)
    weights = [rng.normal(size=w.shape) for w in layer.weights]
    x = rng.normal(size=(1, 6, 4)).astype("float32")
    mask = np.array([[[True, True, True, False, False, False]]])

    def outputs_with(key_bias):
        layer.set_weights([*weights[:3], key_bias, *weights[4:]])
        return ops.convert_to_numpy(layer(x, mask))

    shifted = outputs_with(np.full(4, 60.0))
    np.testing.assert_allclose(shifted, outputs_with(np.zeros(4)), atol=1e-4)


def test_probabilities_can_be_read(monkeypatch):
    layer = built(4, 2)
    seen = []
    monkeypatch.setattr(layer.probabilities, "call", lambda x: seen.append(x) or x)
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    layer(x, np.array([[[True, True, False]]] * 2))

    (probabilities,) = map(ops.convert_to_numpy, seen)
    assert probabilities.shape == (2, 2, 3, 3)  # (B, H, T, T)
    np.testing.assert_allclose(probabilities.sum(axis=-1), 1.0, rtol=1e-6)
    assert probabilities[..., 2].max() < 1e-20


def test_probabilities_are_float32_in_half_precision(monkeypatch):
    layer = built(4, 2, dtype="mixed_bfloat16")
    seen = []
    monkeypatch.setattr(layer.probabilities, "call", lambda x: seen.append(x) or x)
    layer(np.ones((1, 3, 4), "float32"), np.ones((1, 1, 3), bool))
    assert seen[0].dtype == "float32"


def test_dropout_is_of_the_probabilities_and_in_training_only():
    layer = built(4, 2, dropout=0.5, seed=3)
    twin = built(4, 2, dropout=0.5, seed=3)
    x = np.random.default_rng(0).normal(size=(2, 6, 4)).astype("float32")
    mask = np.ones((2, 1, 6), bool)
    at_rest = ops.convert_to_numpy(layer(x, mask))
    trained = ops.convert_to_numpy(layer(x, mask, training=True))

    np.testing.assert_array_equal(at_rest, layer(x, mask, training=False))
    np.testing.assert_array_equal(trained, twin(x, mask, training=True))
    assert np.abs(trained - at_rest).max() > 1e-3 * np.abs(at_rest).max()


def test_uneven_heads_are_refused():
    with pytest.raises(ConfigError, match="hidden_dim=6 is not a multiple of"):
        MultiHeadAttention(hidden_dim=6, num_heads=4)
