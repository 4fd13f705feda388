"""Kernel attention against all products of features, and against the softmax."""

from functools import partial

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from tests.model.compiling import ON_JAX, compiled_on_jax
from tests.model.conftest import tensorflow_only
from tests.model.covering_arrays import in_pairs
from tests.model.gradients import value_and_gradients
from tests.model.layers.attention.masked_reference import (
    POLICIES,
    D,
    H,
    check_packed_is_alone,
    compare,
    floats,
    full_twin,
    largest_tensor,
    left_padded,
    packed,
    padded,
    randomised,
    same_document,
)
from transbeam.configs.base.errors import ConfigError
from transbeam.model.layers.attention import chunked_linear_attention
from transbeam.model.layers.attention.kernel_attention import (
    KernelAttention,
    orthogonal_features,
)
from transbeam.model.layers.positions.alibi import LinearBias
from transbeam.model.layers.positions.rotary import RotaryEmbedding

MAPS = ("softmax", "relu", "elu")


def attention(feature_map: str = "softmax", **options) -> KernelAttention:
    options = {"num_key_value_heads": 2, "head_dim": 4, "seed": 5, **options}
    options.setdefault("num_features", 10)
    return randomised(KernelAttention(D, H, feature_map=feature_map, **options))


def features(layer: KernelAttention, x, *, is_key: bool):
    """The features as the papers have them, without anything for stability."""
    if layer.feature_map == "elu":
        return ops.elu(x) + 1.0
    x = x * layer.head_dim**-0.25
    excited = ops.einsum("bthk,fk->bthf", x, layer.random_features)
    if layer.feature_map == "relu":
        return ops.relu(excited) + 1e-3
    return ops.exp(excited - ops.sum(ops.square(x), axis=-1, keepdims=True) / 2.0)


def check_against_all_pairs(layer, sequence_info, atol=2e-5):
    mask = same_document(sequence_info)
    rows, length, _ = mask.shape
    if layer.causal:
        mask = mask & np.tril(np.ones((length, length), bool))

    def expected(inputs):
        query, key, value = layer.project(inputs, sequence_info.get("position_ids"))
        shared = H // key.shape[2]
        query = features(layer, query, is_key=False)
        key = ops.repeat(features(layer, key, is_key=True), shared, axis=2)
        value = ops.repeat(value, shared, axis=2)
        pairs = ops.einsum("bqhf,bshf->bhqs", query, key) * mask[:, None]
        total = ops.sum(pairs, axis=-1, keepdims=True)
        total = ops.where(total > 0.0, total, 1.0)  # where nothing is seen
        return layer.join(ops.einsum("bhqs,bshk->bqhk", pairs / total, value))

    compare(layer, floats(rows, length, D), sequence_info, expected, atol=atol)


@in_pairs(
    feature_map=MAPS,
    causal=[False, True],
    sequence_info={
        "padded": padded(20, 33, to=33),
        "left-padded": left_padded(20, 33, to=33),
        "packed": packed([12, 1, 20], [30], [8, 8, 8, 9], padding=3),
    },
)
def test_against_all_pairs(monkeypatch, feature_map, causal, sequence_info):
    monkeypatch.setattr(chunked_linear_attention, "CHUNK", 8)
    check_against_all_pairs(attention(feature_map, causal=causal), sequence_info)


@settings(max_examples=4 if ON_JAX else 8)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=5),
    st.integers(1, 6),
    st.booleans(),
)
def test_any_chunks_and_any_documents(lengths, chunk, causal):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked_linear_attention, "CHUNK", chunk)
        layer = attention(causal=causal)
        check_against_all_pairs(layer, packed(lengths, padding=2))


@pytest.mark.parametrize("feature_map", MAPS)
@pytest.mark.parametrize("causal", [False, True])
def test_packed_is_alone(monkeypatch, feature_map, causal):
    monkeypatch.setattr(chunked_linear_attention, "CHUNK", 16)
    check_packed_is_alone(attention(feature_map, causal=causal), 40, 3, 1, 50)


def test_rotary_positions():
    layer = attention(rotary=RotaryEmbedding())
    check_against_all_pairs(layer, packed([12, 20], padding=2))


def test_more_features_come_nearer_to_the_softmax():
    # Small scores: where they are large, a few rare features decide.
    x, sequence_info = 0.1 * floats(2, 30, D), packed([13, 17], [30])

    def error(num_features):
        errors = []
        for seed in range(8):
            layer = attention(num_features=num_features, seed=seed)
            exact = full_twin(layer)(x, sequence_info)
            errors.append(ops.mean(ops.square(layer(x, sequence_info) - exact)))
        return float(ops.mean(ops.stack(errors)))

    # It falls as one over the features, of which there are 64 times as many.
    few, many = error(16), error(1024)
    assert few / 128 < many < few / 32
    assert many < 1e-6


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("feature_map", MAPS)
def test_large_keys_of_one_document_do_not_drown_those_of_another(feature_map, causal):
    layer = attention(feature_map, causal=causal)
    x, sequence_info = floats(1, 20, D), packed([10, 10])
    quiet = ops.convert_to_numpy(layer(x, sequence_info))
    x[:, :10] *= 50.0
    loud = ops.convert_to_numpy(layer(x, sequence_info))
    np.testing.assert_allclose(loud[:, 10:], quiet[:, 10:], rtol=0, atol=1e-5)
    assert np.isfinite(loud).all()


@pytest.mark.parametrize("sequence_info", [padded(30, to=30), packed([30])])
def test_nothing_comes_from_what_a_decoder_may_not_see(monkeypatch, sequence_info):
    monkeypatch.setattr(chunked_linear_attention, "CHUNK", 8)
    layer = attention(causal=True)
    x = keras.Variable(floats(1, 30, D))
    _, (gradient,) = value_and_gradients(
        lambda: layer(ops.convert_to_tensor(x), sequence_info)[:, 20], [x]
    )
    felt = np.abs(gradient[0]).max(axis=-1) > 0
    np.testing.assert_array_equal(np.flatnonzero(felt), np.arange(21))


# One row of tokens that shrink and one of tokens that grow: their features lie hundreds
# of powers of e apart.
UNEVEN = np.geomspace(0.1, 30.0, 30, dtype="float32")
UNEVEN = np.stack([UNEVEN[::-1], UNEVEN])[..., np.newaxis]


@in_pairs(
    chunk=[8, 128],
    late=[0.05, 20.0],
    sequence_info={"padded": padded(30, 25, to=30), "packed": packed([7, 23], [30])},
)
def test_what_comes_later_takes_nothing_from_what_was_before(
    monkeypatch, chunk, late, sequence_info
):
    monkeypatch.setattr(chunked_linear_attention, "CHUNK", chunk)
    layer = attention(causal=True)
    answer = compiled_on_jax(layer)
    x = floats(2, 30, D) * UNEVEN
    alone = answer(
        x[:, :20], {name: ids[:, :20] for name, ids in sequence_info.items()}
    )
    x[:, 20:] *= late
    whole = ops.convert_to_numpy(answer(x, sequence_info))[:, :20]
    np.testing.assert_allclose(whole, alone, rtol=1e-4, atol=1e-4)
    # The first token of a row sees only itself.
    own = layer.join(ops.repeat(layer.project(x)[2], H // 2, axis=2))
    np.testing.assert_allclose(whole[:, 0], own[:, 0], rtol=1e-4, atol=1e-4)


def test_gradients_of_uneven_tokens_are_finite():
    layer = attention(causal=True)
    x = keras.Variable(floats(2, 30, D) * UNEVEN)
    _, gradients = value_and_gradients(
        lambda: layer(ops.convert_to_tensor(x), padded(30, 25, to=30)),
        [x, *layer.trainable_variables],
    )
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("feature_map", MAPS)
@pytest.mark.parametrize("uneven", [False, True])
def test_a_step_is_the_whole(feature_map, uneven):
    layer = attention(feature_map, causal=True, rotary=RotaryEmbedding())
    x, sequence_info = floats(2, 12, D), left_padded(12, 5, to=12)
    x = x * UNEVEN[:, ::2][:, :12] if uneven else x
    whole = ops.convert_to_numpy(compiled_on_jax(layer)(x, sequence_info))

    cache, parts = layer.make_cache(2, 12), []
    for first, last in [(0, 5), (5, 6), (6, 9), (9, 10), (10, 12)]:
        now = {
            "padding_mask": sequence_info["padding_mask"],
            "position_ids": sequence_info["position_ids"][:, first:last],
        }
        step = compiled_on_jax(partial(layer.step, index=first))
        part, cache = step(x[:, first:last], now, cache)
        parts.append(ops.convert_to_numpy(part))
    stepped = np.concatenate(parts, axis=1)
    inside = sequence_info["padding_mask"] == 1
    rtol, atol = (1e-4, 1e-4) if uneven else (0, 1e-5)
    np.testing.assert_allclose(stepped[inside], whole[inside], rtol=rtol, atol=atol)


def test_the_cache_does_not_grow():
    layer = attention(causal=True)
    sizes = {name: tuple(part.shape) for name, part in layer.make_cache(3, 99).items()}
    assert sizes == {"sums": (3, 2, 10, 5), "peak": (3, 2, 10)}


@in_pairs(
    policy=POLICIES,
    causal=[False, True],
    sequence_info={"padded": padded(0, to=20), "packed": packed([], padding=20)},
)
def test_an_empty_row_is_finite(policy, causal, sequence_info):
    layer = attention(causal=causal, dtype=policy)
    answer = compiled_on_jax(lambda x: layer(x, sequence_info))
    outputs = ops.convert_to_numpy(answer(floats(1, 20, D)))
    assert np.isfinite(outputs.astype("float32")).all()


@tensorflow_only
@pytest.mark.parametrize("causal", [False, True])
def test_memory_grows_with_the_length(causal):
    layer = attention(num_features=64, causal=causal)
    short, long = (largest_tensor(layer, length) for length in (512, 2048))
    assert long <= 2048 * H * chunked_linear_attention.CHUNK
    assert long == 4 * short


def test_features_are_orthogonal_and_as_long_as_normal_vectors():
    rows = orthogonal_features(2000, 8, seed=1)
    for group in rows.reshape(-1, 8, 8)[:5]:
        products = group @ group.T
        np.testing.assert_allclose(
            products, np.diag(np.diag(products)), rtol=0, atol=1e-5
        )
    assert abs((rows**2).sum(axis=1).mean() - 8) < 0.3
    assert abs(rows.mean()) < 0.03


def test_features_come_from_the_seed_and_a_drawn_seed_is_kept():
    same = attention().random_features
    np.testing.assert_array_equal(attention().random_features, same)
    assert not np.array_equal(attention(seed=6).random_features, same)
    layer = attention(seed=None)
    copy = KernelAttention.from_config(layer.get_config())
    np.testing.assert_array_equal(copy.random_features, layer.random_features)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature_map": "cosine"}, "feature_map='cosine'; known here"),
        ({"num_features": 0}, "num_features=0"),
        ({"dropout": 0.1}, "dropout=0.1"),
        ({"score_bias": LinearBias(H)}, "score_bias"),
    ],
)
def test_impossible_arguments_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        KernelAttention(D, H, **options)
