"""Window attention against all pairs with a mask, and what it costs."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from tests.model.compiling import ON_JAX
from tests.model.conftest import tensorflow_only
from tests.model.layers.attention.masked_reference import (
    POLICIES,
    D,
    H,
    attention_work,
    check_packed_is_alone,
    compare,
    dense_attention,
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
from transbeam.model.layers.attention.sliding_window import SlidingWindowAttention
from transbeam.model.layers.positions.alibi import LinearBias
from transbeam.model.layers.positions.relative_bias import RelativeBias
from transbeam.model.layers.positions.rotary import RotaryEmbedding


def attention(window_size: int, **options) -> SlidingWindowAttention:
    options = {"num_key_value_heads": 2, "head_dim": 4, **options}
    return randomised(SlidingWindowAttention(D, H, window_size=window_size, **options))


def in_reach(layer: SlidingWindowAttention, length: int) -> np.ndarray:
    index = np.arange(length)
    ahead = index - index[:, None]
    if layer.causal:
        return (ahead <= 0) & (ahead > -layer.window_size)
    return np.abs(ahead) <= layer.window_size // 2


def check_against_all_pairs(layer, sequence_info):
    length = next(iter(sequence_info.values())).shape[1]
    mask = same_document(sequence_info) & in_reach(layer, length)

    def expected(inputs):
        heads = layer.project(inputs, sequence_info.get("position_ids"))
        return layer.join(dense_attention(layer, heads, sequence_info, mask))

    rows = next(iter(sequence_info.values())).shape[0]
    compare(layer, floats(rows, length, D), sequence_info, expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "sequence_info",
    [
        padded(75, 130, to=130),
        left_padded(75, 130, to=130),
        packed([40, 1, 70], [111], padding=5),
    ],
    ids=["padded", "left-padded", "packed"],
)
def test_against_all_pairs(causal, sequence_info):
    check_against_all_pairs(attention(20, causal=causal), sequence_info)


@settings(max_examples=4 if ON_JAX else 10)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(1, 6),
    st.sampled_from([2, 4, 8]),
    st.booleans(),
)
def test_any_blocks_and_any_documents(lengths, block_size, window_size, causal):
    layer = attention(window_size, causal=causal)
    layer.block_size = block_size
    check_against_all_pairs(layer, packed(lengths, padding=2))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sequence_info", [padded(40, 25, to=40), packed([13, 27])])
def test_a_wide_window_is_full_attention(causal, sequence_info):
    layer = attention(80, causal=causal)
    full = full_twin(layer)

    def expected(inputs):
        query, key, value = layer.project(inputs, sequence_info.get("position_ids"))
        query = query / layer.score_scale  # full attention scales scores
        return layer.join(full.attend(query, key, value, sequence_info))

    rows = next(iter(sequence_info.values())).shape[0]
    compare(layer, floats(rows, 40, D), sequence_info, expected)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_is_alone(causal):
    check_packed_is_alone(attention(10, causal=causal), 40, 3, 1, 50)


POSITIONS = {
    "rope": {"rotary": RotaryEmbedding()},
    "alibi": {"score_bias": LinearBias(H, dtype="float32")},
    "relative": {"score_bias": RelativeBias(8, 16, dtype="float32")},
}


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("causal", [False, True])
def test_positions(position, causal):
    sequence_info = packed([40, 30], padding=2)
    if position == "relative":
        sequence_info["bias_table"] = floats(8, H)
    layer = attention(20, causal=causal, **POSITIONS[position])
    check_against_all_pairs(layer, sequence_info)


@tensorflow_only
@pytest.mark.parametrize("position", POSITIONS)
def test_in_groups_of_blocks(monkeypatch, position):
    monkeypatch.setattr(
        "transbeam.model.kernels.blockwise_map_tensorflow.WORK_AT_ONCE", 10_000
    )
    sequence_info = packed([75, 30, 60], [150], padding=2)
    if position == "relative":
        sequence_info["bias_table"] = floats(8, H)
    layer = attention(20, causal=True, **POSITIONS[position])
    check_against_all_pairs(layer, sequence_info)


def test_the_table_of_relative_biases_learns():
    layer = attention(20, score_bias=RelativeBias(8, 16, dtype="float32"))
    table = keras.Variable(floats(8, H))
    x, sequence_info = floats(1, 70, D), padded(70, to=70)
    mask = same_document(sequence_info) & in_reach(layer, 70)

    def gradient(function):
        from tests.model.gradients import value_and_gradients

        return value_and_gradients(function, [table])[1][0]

    def here():
        return layer(x, {**sequence_info, "bias_table": ops.convert_to_tensor(table)})

    def there():
        with_table = {**sequence_info, "bias_table": ops.convert_to_tensor(table)}
        heads = layer.project(ops.convert_to_tensor(x))
        return layer.join(dense_attention(layer, heads, with_table, mask))

    expected = gradient(there)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(gradient(here), expected, rtol=1e-4, atol=1e-4)


def test_nothing_comes_from_what_a_decoder_may_not_see():
    layer = attention(6, causal=True)
    x = keras.Variable(floats(1, 50, D))
    sequence_info = padded(50, to=50)
    from tests.model.gradients import value_and_gradients

    _, (gradient,) = value_and_gradients(
        lambda: layer(ops.convert_to_tensor(x), sequence_info)[:, 40], [x]
    )
    felt = np.abs(gradient[0]).max(axis=-1) > 0
    np.testing.assert_array_equal(np.flatnonzero(felt), np.arange(35, 41))


def test_probabilities_can_be_read():
    layer = attention(8)
    with layer.probabilities.watch() as seen:
        layer(floats(2, 70, D), padded(70, 30, to=70))
    (probabilities,) = map(ops.convert_to_numpy, seen)
    assert probabilities.shape == (3, 2, H, 32, 3 * 32)  # three blocks of 32
    assert probabilities.dtype == "float32"
    np.testing.assert_allclose(probabilities.sum(axis=-1), 1.0, rtol=1e-5)
    # The fifth query of a block sees the fifth before it and the fifth after.
    seen_keys = np.flatnonzero(probabilities[1, 0, 0, 4] > 1e-20)
    np.testing.assert_array_equal(seen_keys, np.arange(32, 41))


def test_dropout_is_of_the_probabilities_and_in_training_only():
    layer, x = attention(8, dropout=0.5, seed=3), floats(1, 40, D)
    sequence_info = padded(40, to=40)
    at_rest = ops.convert_to_numpy(layer(x, sequence_info))
    np.testing.assert_array_equal(at_rest, layer(x, sequence_info, training=False))
    trained = ops.convert_to_numpy(layer(x, sequence_info, training=True))
    assert np.abs(trained - at_rest).max() > 0.1


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("causal", [False, True])
def test_an_empty_row_is_finite(policy, causal):
    layer = attention(8, causal=causal, dtype=policy)
    outputs = layer(floats(1, 40, D), padded(0, to=40))
    assert np.isfinite(ops.convert_to_numpy(outputs).astype("float32")).all()


def test_a_step_is_the_whole():
    layer = attention(6, causal=True, rotary=RotaryEmbedding())
    x = floats(2, 12, D)
    sequence_info = left_padded(12, 9, to=12)
    whole = ops.convert_to_numpy(layer(x, sequence_info))

    cache, parts = layer.make_cache(2, 12), []
    for first, last in [(0, 5), (5, 6), (6, 9), (9, 10), (10, 12)]:
        now = {
            "padding_mask": sequence_info["padding_mask"] * (np.arange(12) < last),
            "position_ids": sequence_info["position_ids"][:, first:last],
        }
        part, cache = layer.step(x[:, first:last], now, cache, first)
        parts.append(ops.convert_to_numpy(part))
    stepped = np.concatenate(parts, axis=1)
    inside = sequence_info["padding_mask"] == 1
    np.testing.assert_allclose(stepped[inside], whole[inside], rtol=0, atol=1e-5)


@tensorflow_only
@pytest.mark.parametrize("causal", [False, True])
def test_memory_grows_with_the_length(causal):
    layer = attention(128, causal=causal)
    short, long = (largest_tensor(layer, length) for length in (512, 2048))
    # Scores: a window and a block for each query, or nearly.
    assert long == 2048 * H * (128 + layer.block_size)
    assert long == 4 * short


@tensorflow_only
@pytest.mark.parametrize("causal", [False, True])
def test_an_eighth_of_the_work_of_full_attention(causal):
    layer = attention(512, causal=causal)
    full = attention_work(full_twin(layer), 4096)
    assert full == 2 * 4096 * 4096 * H * layer.head_dim
    # 512 tokens of the window, and 64 of the block.
    assert full / attention_work(layer, 4096) == 4096 / (512 + 64)


def test_impossible_sizes_are_refused():
    with pytest.raises(ConfigError, match="window_size=3 must be even"):
        SlidingWindowAttention(D, H, window_size=3)


@pytest.mark.parametrize(
    ("sequence_info", "message"),
    [
        ({}, "expected exactly one of"),
        (
            {"padding_mask": np.ones((1, 9), "int32")},
            r"padding_mask has shape \(1, 9\)",
        ),
        ({"padding_mask": np.ones((1, 8))}, "padding_mask has dtype float"),
        ({"padding_mask": np.ones((8,), "int32")}, r"padding_mask has shape \(8,\)"),
        (
            {**padded(8, to=8), "prefix_mask": np.ones((1, 8), "int32")},
            "sequence_info has prefix_mask",
        ),
    ],
)
def test_wrong_places_are_refused(sequence_info, message):
    with pytest.raises(ValueError, match=message):
        attention(4)(floats(1, 8, D), sequence_info)
