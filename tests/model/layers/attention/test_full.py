"""Attention against numbers worked out by hand and against NumPy."""

from contextlib import nullcontext

import numpy as np
import pytest
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.layers.attention.full import MultiHeadAttention

# softmax([1 / sqrt(2), 0]): what a token gives to itself, and what to the other,
# when its query and its key are the same unit vector.
OWN, OTHER = 0.669762, 0.330238


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def built(hidden_dim: int, num_heads: int, **options) -> MultiHeadAttention:
    layer = MultiHeadAttention(hidden_dim, num_heads, **options)
    layer.build((None, None, hidden_dim))
    return layer


def real(*flags) -> dict[str, np.ndarray]:
    """Sequence info of one row, or of several."""
    return {"padding_mask": np.atleast_2d(np.array(flags, "int32"))}


def with_identity_weights(num_heads: int) -> MultiHeadAttention:
    layer = built(2, num_heads)
    layer.set_weights([np.eye(2), np.zeros(2)] * 4)
    return layer


def test_two_tokens_by_hand():
    tokens = np.eye(2, dtype="float32")[np.newaxis]
    outputs = with_identity_weights(num_heads=1)(tokens, real(1, 1))
    expected = [[[OWN, OTHER], [OTHER, OWN]]]
    np.testing.assert_allclose(outputs, expected, atol=1e-6)


def test_a_hidden_token_gives_nothing():
    tokens = np.eye(2, dtype="float32")[np.newaxis]
    outputs = with_identity_weights(num_heads=1)(tokens, real(1, 0))
    np.testing.assert_allclose(outputs, [[[1, 0], [1, 0]]], atol=1e-6)


def test_heads_see_their_own_slice():
    # Each head sees one number: the first 1 and 0, the second 0 and 1. The query
    # that is 0 scores all alike; the one that is 1 gives e to 1 for itself.
    tokens = np.eye(2, dtype="float32")[np.newaxis]
    outputs = with_identity_weights(num_heads=2)(tokens, real(1, 1))
    e = np.e / (np.e + 1)
    np.testing.assert_allclose(outputs, [[[e, 0.5], [0.5, e]]], atol=1e-6)


def reference(x, mask, weights, num_heads, num_key_value_heads, width):
    """Loops over batch, head and query; -inf for what is forbidden."""
    qw, qb, kw, kb, vw, vb, ow, ob = weights
    q, k, v = x @ qw + qb, x @ kw + kb, x @ vw + vb
    batch, length, _ = x.shape
    outputs = np.zeros((batch, length, num_heads * width))
    for b in range(batch):
        for head in range(num_heads):
            part = slice(head * width, (head + 1) * width)
            shared = head // (num_heads // num_key_value_heads)
            keys = slice(shared * width, (shared + 1) * width)
            for t in range(length):
                scores = k[b, :, keys] @ q[b, t, part] / np.sqrt(width)
                scores = np.where(mask[b, t], scores, -np.inf)
                outputs[b, t, part] = softmax(scores) @ v[b, :, keys]
    return outputs @ ow + ob


IDS = np.array([[1, 1, 2, 2, 2], [1, 1, 1, 1, 1]], "int32")
PACKED = {
    "document_ids": IDS,
    "position_ids": np.array([[0, 1, 0, 1, 2], [0, 1, 2, 3, 4]], "int32"),
}
PADDED = {"padding_mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "int32")}
SAME = IDS[:, :, None] == IDS[:, None, :]
PREFIX = np.array([[1, 0, 1, 1, 0], [1, 1, 1, 0, 0]], "int32")
NOT_AFTER = np.tril(np.ones((5, 5), bool))


@pytest.mark.parametrize(
    ("sequence_info", "causal", "mask"),
    [
        (PADDED, False, PADDED["padding_mask"].astype(bool)[:, None].repeat(5, 1)),
        (PACKED, False, SAME),
        (PADDED, True, (PADDED["padding_mask"] == 1)[:, None] & NOT_AFTER),
        (PACKED, True, SAME & NOT_AFTER),
        (
            {**PACKED, "prefix_mask": PREFIX},
            True,
            SAME & (NOT_AFTER | (PREFIX == 1)[:, None]),
        ),
    ],
    ids=["padded", "packed", "causal", "packed causal", "packed prefix"],
)
@pytest.mark.parametrize("num_key_value_heads", [1, 2, 4])
@pytest.mark.parametrize("in_the_open", [False, True])
def test_against_numpy(sequence_info, causal, mask, num_key_value_heads, in_the_open):
    rng = np.random.default_rng(0)
    layer = built(
        12, 4, num_key_value_heads=num_key_value_heads, head_dim=5, causal=causal
    )
    weights = [rng.normal(size=w.shape) for w in layer.weights]
    layer.set_weights(weights)
    x = rng.normal(size=(2, 5, 12))
    expected = reference(x, mask, weights, 4, num_key_value_heads, 5)
    with layer.probabilities.watch() if in_the_open else nullcontext():
        outputs = layer(x.astype("float32"), sequence_info)
    # Scores of some tens and sums of 12 products: 1e-4 of values around ten.
    np.testing.assert_allclose(outputs, expected, atol=1e-4)


def test_scores_may_go_unscaled():
    # T5's: the same as queries K ** 0.5 times as long.
    rng = np.random.default_rng(0)
    scaled, plain = built(8, 2), built(8, 2, scale_scores=False)
    weights = [rng.normal(size=w.shape) for w in plain.weights]
    plain.set_weights(weights)
    scaled.set_weights([weights[0] * 2, weights[1] * 2, *weights[2:]])
    x = rng.normal(size=(1, 3, 8)).astype("float32")
    np.testing.assert_allclose(
        plain(x, real(1, 1, 1)), scaled(x, real(1, 1, 1)), atol=1e-5
    )


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_a_query_that_may_see_nothing_stays_finite(policy):
    layer = built(4, 2, dtype=policy)
    layer.set_weights([10 * np.ones(w.shape) for w in layer.weights])
    outputs = layer(np.ones((1, 3, 4), "float32"), real(0, 0, 0))
    assert np.isfinite(ops.convert_to_numpy(outputs).astype("float32")).all()


def test_a_common_shift_of_the_scores_changes_nothing():
    # The bias of the keys shifts all scores of a query, here by some -100 to 100.
    # A mask that is put in the place of a score, not added to it, would leak.
    rng = np.random.default_rng(0)
    layer = built(4, 1)
    weights = [rng.normal(size=w.shape) for w in layer.weights]
    x = rng.normal(size=(1, 6, 4)).astype("float32")

    def outputs_with(key_bias):
        layer.set_weights([*weights[:3], key_bias, *weights[4:]])
        return ops.convert_to_numpy(layer(x, real(1, 1, 1, 0, 0, 0)))

    shifted = outputs_with(np.full(4, 60.0))
    np.testing.assert_allclose(shifted, outputs_with(np.zeros(4)), atol=1e-4)


def test_probabilities_can_be_read():
    layer = built(4, 2)
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    with layer.probabilities.watch() as seen:
        layer(x, real([1, 1, 0], [1, 1, 0]))
    layer(x, real([1, 1, 0], [1, 1, 0]))

    (probabilities,) = map(ops.convert_to_numpy, seen)
    assert probabilities.shape == (2, 2, 3, 3)  # (B, H, T, T)
    np.testing.assert_allclose(probabilities.sum(axis=-1), 1.0, rtol=1e-6)
    assert probabilities[..., 2].max() < 1e-20


def test_probabilities_are_float32_in_half_precision():
    layer = built(4, 2, dtype="mixed_bfloat16")
    with layer.probabilities.watch() as seen:
        layer(np.ones((1, 3, 4), "float32"), real(1, 1, 1))
    assert seen[0].dtype == "float32"


def test_dropout_is_of_the_probabilities_and_in_training_only():
    layer = built(4, 2, dropout=0.5, seed=3)
    twin = built(4, 2, dropout=0.5, seed=3)
    x = np.random.default_rng(0).normal(size=(2, 6, 4)).astype("float32")
    mask = real(*np.ones((2, 6)))
    at_rest = ops.convert_to_numpy(layer(x, mask))
    trained = ops.convert_to_numpy(layer(x, mask, training=True))

    np.testing.assert_array_equal(at_rest, layer(x, mask, training=False))
    np.testing.assert_array_equal(trained, twin(x, mask, training=True))
    assert np.abs(trained - at_rest).max() > 1e-3 * np.abs(at_rest).max()
    # A second dropout of the same probabilities would draw a second seed.
    assert (
        ops.convert_to_numpy(layer.probabilities_dropout.seed_generator.state)[1] == 1
    )


def test_uneven_heads_are_refused():
    with pytest.raises(ConfigError, match="hidden_dim=6 is not a multiple of"):
        MultiHeadAttention(hidden_dim=6, num_heads=4)


def test_uneven_groups_are_refused():
    with pytest.raises(ConfigError, match="num_heads=4 is not a multiple of"):
        MultiHeadAttention(hidden_dim=8, num_heads=4, num_key_value_heads=3)


def test_a_wrong_rank_is_refused():
    with pytest.raises(ValueError, match=r"inputs has shape \(3, 8\); expected"):
        built(8, 2)(np.ones((3, 8), "float32"), real(1, 1, 1))


@pytest.mark.parametrize("in_the_open", [False, True])
def test_scores_that_float16_cannot_hold_unscaled(in_the_open):
    layer = built(64, 1, dtype="float16")
    layer.set_weights([np.eye(64), np.zeros(64)] * 4)
    x = np.full((1, 3, 64), 40.0) * np.array([1.0, 0.999, -1.0])[:, None]
    # Products are 102,400; scores an eighth of it. The largest takes all.
    expected = x[:, [0, 0, 2]]
    with layer.probabilities.watch() if in_the_open else nullcontext():
        outputs = layer(x, real(1, 1, 1))
    np.testing.assert_allclose(outputs, expected, rtol=1e-3)
