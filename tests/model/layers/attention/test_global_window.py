"""A window with global tokens against all pairs with a mask, and what it costs."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from tests.model.compiling import ON_JAX, compiled_on_jax
from tests.model.conftest import others_thorough, tensorflow_only
from tests.model.layers.attention.masked_reference import (
    POLICIES,
    D,
    H,
    check_packed_is_alone,
    compare,
    dense_attention,
    documents,
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
from transbeam.model.layers.attention.global_window import GlobalWindowAttention
from transbeam.model.layers.positions.alibi import LinearBias
from transbeam.model.layers.positions.relative_bias import RelativeBias
from transbeam.model.layers.positions.rotary import RotaryEmbedding


def attention(
    window_size: int, num_global_tokens: int, **options
) -> GlobalWindowAttention:
    options = {"num_key_value_heads": 2, "head_dim": 4, **options}
    layer = GlobalWindowAttention(
        D, H, window_size=window_size, num_global_tokens=num_global_tokens, **options
    )
    return randomised(layer)


def globally(layer, inputs, sequence_info):
    """As `layer.project`, by the global projections."""
    query = layer.split(layer.global_query(inputs))
    key = layer.split(layer.global_key(inputs))
    if layer.rotary is not None:
        positions = documents(sequence_info)[1].astype("int32")
        query, key = layer.rotary(query, positions), layer.rotary(key, positions)
    return layer.scale(query), key, layer.split(layer.global_value(inputs))


def check_against_all_pairs(layer, sequence_info):
    same = same_document(sequence_info)
    rows, length, _ = same.shape
    index = np.arange(length)
    near = np.abs(index - index[:, None]) <= layer.window_size // 2
    is_global = documents(sequence_info)[1] < layer.num_global_tokens
    is_global &= np.asarray(sequence_info.get("global_mask", 1)) != 0

    def expected(inputs):
        heads = layer.project(inputs, sequence_info.get("position_ids"))
        mask = same & (near | is_global[:, None])
        everyone = dense_attention(layer, heads, sequence_info, mask)
        heads = globally(layer, inputs, sequence_info)
        some = dense_attention(layer, heads, sequence_info, same)
        return layer.join(ops.where(is_global[..., None, None], some, everyone))

    compare(layer, floats(rows, length, D), sequence_info, expected)


SEQUENCES = {
    "padded": padded(75, 130, to=130),
    "left-padded": left_padded(75, 130, to=130),
    "packed": packed([40, 1, 70], [111], [32, 32, 32], padding=5),
}
# Each of both, and together what they meet in texts side by side.
TOGETHER = [(1, "padded"), (3, "left-padded"), (40, "padded")]
TOGETHER += [(number, "packed") for number in [1, 3, 40]]
EACH = list(itertools.product([1, 3, 40], SEQUENCES))


@pytest.mark.parametrize("case", others_thorough(EACH, TOGETHER), ids=str)
def test_against_all_pairs(case):
    number, name = case
    check_against_all_pairs(attention(20, number), SEQUENCES[name])


@settings(max_examples=4 if ON_JAX else 8)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=5),
    st.integers(1, 6),
    st.sampled_from([2, 4]),
    st.integers(1, 8),
    st.none() | st.integers(0, 2**32 - 1),
)
def test_any_blocks_and_any_documents(lengths, block_size, window_size, tokens, seed):
    """And any mask of the tokens that may be global."""
    layer = attention(window_size, tokens)
    layer.block_size = block_size
    sequence_info = dict(packed(lengths, padding=2))
    if seed is not None:
        shape = np.shape(sequence_info["document_ids"])
        mask = np.random.default_rng(seed).integers(0, 2, shape, dtype="int32")
        sequence_info["global_mask"] = mask
    check_against_all_pairs(layer, sequence_info)


def first_segments(sequence_info, *lengths: int):
    """Adds a mask of each document's first tokens, of a number of its own."""
    ids, positions = documents(sequence_info)
    numbers = np.array((0, *lengths))[np.minimum(ids, len(lengths))]
    return {**sequence_info, "global_mask": (positions < numbers).astype("int32")}


QUESTIONS = {
    # Of blocks of 32: within one, over two, none at all, as many as there can be.
    "padded": first_segments(padded(75, 130, to=130), 40),
    "none": first_segments(padded(75, 130, to=130), 0),
    "left-padded": first_segments(left_padded(75, 130, to=130), 33),
    "packed": first_segments(
        packed([40, 1, 70], [111], [32, 32, 32], padding=5), 12, 1, 40
    ),
}


@pytest.mark.parametrize("name", others_thorough(QUESTIONS, ["padded", "packed"]))
def test_questions_of_any_length_against_all_pairs(name):
    check_against_all_pairs(attention(20, 40), QUESTIONS[name])


def test_tokens_beyond_the_most_are_not_global():
    """A mask that marks more is as one that marks the first of them."""
    layer, x = attention(8, 3), floats(1, 60, D)
    outputs = [
        ops.convert_to_numpy(layer(x, first_segments(padded(60, to=60), number)))
        for number in (3, 9, 60)
    ]
    plain = ops.convert_to_numpy(layer(x, padded(60, to=60)))
    for other in outputs:
        np.testing.assert_array_equal(other, plain)


def test_a_wide_window_is_full_attention():
    layer = attention(80, 2)
    for name in ("query", "key", "value"):
        getattr(layer, f"global_{name}").set_weights(getattr(layer, name).get_weights())
    full = full_twin(layer)
    x, sequence_info = floats(2, 40, D), packed([13, 27], [40])
    here, there = (
        compiled_on_jax(lambda x, kind=kind: kind(x, sequence_info))(x)
        for kind in (layer, full)
    )
    np.testing.assert_allclose(here, there, rtol=0, atol=1e-5)


@pytest.mark.parametrize("num_global_tokens", [1, 4])
def test_packed_is_alone(num_global_tokens):
    check_packed_is_alone(attention(10, num_global_tokens), 70, 3, 1, 90)


POSITIONS = {
    "rope": {"rotary": RotaryEmbedding()},
    "alibi": {"score_bias": LinearBias(H, directed=True, dtype="float32")},
    "relative": {"score_bias": RelativeBias(8, 16, dtype="float32")},
}


@pytest.mark.parametrize(
    ("position", "sequence_info"),
    [
        ("rope", packed([75, 30], padding=2)),
        ("alibi", padded(100, to=100)),
        ("relative", packed([75, 30], padding=2)),
        pytest.param("rope", padded(100, to=100), marks=pytest.mark.thorough),
        pytest.param("alibi", packed([75, 30], padding=2), marks=pytest.mark.thorough),
        pytest.param("relative", padded(100, to=100), marks=pytest.mark.thorough),
    ],
)
def test_positions(position, sequence_info):
    sequence_info = dict(sequence_info)
    if position == "relative":
        sequence_info["bias_table"] = floats(8, H)
    check_against_all_pairs(attention(20, 2, **POSITIONS[position]), sequence_info)


@tensorflow_only
@pytest.mark.parametrize("position", others_thorough(POSITIONS, ["relative"]))
def test_in_groups_of_blocks(monkeypatch, position):
    monkeypatch.setattr(
        "transbeam.model.kernels.blockwise_map_tensorflow.WORK_AT_ONCE", 10_000
    )
    sequence_info = packed([75, 30, 60], [150], padding=2)
    if position == "relative":
        sequence_info["bias_table"] = floats(8, H)
    layer = attention(20, 3, **POSITIONS[position])
    check_against_all_pairs(layer, sequence_info)


def test_probabilities_can_be_read():
    layer = attention(8, 2)
    with layer.probabilities.watch() as seen:
        layer(floats(1, 160, D), padded(150, to=160))
    everyone, some = map(ops.convert_to_numpy, seen)
    assert everyone.shape == (5, 1, H, 32, 3 * 32 + 2)
    np.testing.assert_allclose(everyone.sum(axis=-1), 1.0, rtol=1e-5)
    assert everyone[3, ..., -2:].min() > 0  # the global tokens, far away
    assert some.shape == (5, 1, H, 2, 32)
    np.testing.assert_allclose(some.sum(axis=(0, 4)), 1.0, rtol=1e-5)


def test_dropout_is_of_the_probabilities_and_in_training_only():
    layer, x = attention(8, 1, dropout=0.5, seed=3), floats(1, 40, D)
    sequence_info = padded(40, to=40)
    at_rest = ops.convert_to_numpy(layer(x, sequence_info))
    np.testing.assert_array_equal(at_rest, layer(x, sequence_info, training=False))
    trained = ops.convert_to_numpy(layer(x, sequence_info, training=True))
    assert (np.abs(trained - at_rest).max(axis=(0, 2)) > 0.01).all()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("sequence_info", [padded(0, to=40), packed([], padding=40)])
def test_an_empty_row_is_finite(policy, sequence_info):
    layer = attention(8, 3, dtype=policy)
    answer = compiled_on_jax(lambda x: layer(x, sequence_info))
    outputs = ops.convert_to_numpy(answer(floats(1, 40, D)))
    assert np.isfinite(outputs.astype("float32")).all()


@tensorflow_only
def test_memory_grows_with_the_length():
    layer = attention(128, 1)
    short, long = (largest_tensor(layer, length) for length in (512, 2048))
    # Scores: a window, a block and the global token for each query.
    assert long == 2048 * H * (128 + layer.block_size + 1)
    assert long == 4 * short


def test_impossible_arguments_are_refused():
    with pytest.raises(ConfigError, match="num_global_tokens=0"):
        GlobalWindowAttention(D, H, num_global_tokens=0)
    with pytest.raises(ConfigError, match="causal=True"):
        GlobalWindowAttention(D, H, causal=True)


def test_a_wrong_rank_is_refused():
    with pytest.raises(ValueError, match=r"inputs has shape \(40, 12\); expected"):
        attention(8, 1)(floats(40, D), padded(40, to=40))
