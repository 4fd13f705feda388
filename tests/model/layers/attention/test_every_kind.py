"""The common contract of all kinds of attention."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from tests.model.compiling import compiled_on_jax
from tests.model.conftest import tensorflow_only
from tests.model.gradients import value_and_gradients
from tests.model.layers.attention.masked_reference import (
    D,
    H,
    floats,
    left_padded,
    packed,
    padded,
    randomised,
    real,
)
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.attention.block_sparse import BlockSparseAttention
from transbeam.model.layers.attention.full import MultiHeadAttention
from transbeam.model.layers.attention.global_window import GlobalWindowAttention
from transbeam.model.layers.attention.kernel_attention import KernelAttention
from transbeam.model.layers.attention.low_rank import LowRankAttention
from transbeam.model.layers.attention.sliding_window import SlidingWindowAttention
from transbeam.model.layers.positions.relative_bias import RelativeBias

KINDS = {
    "full": (MultiHeadAttention, {}),
    "sliding window": (SlidingWindowAttention, {"window_size": 4}),
    "global window": (GlobalWindowAttention, {"window_size": 4}),
    "block sparse": (BlockSparseAttention, {"block_size": 4, "num_random_blocks": 1}),
    "low rank": (LowRankAttention, {"max_sequence_length": 40, "rank": 4}),
    "kernel": (KernelAttention, {"num_features": 8}),
}
CAUSAL = ("full", "sliding window", "kernel")
SEEN_BY_PAIRS = ("full", "sliding window", "global window", "block sparse")


def make(kind: str, **more) -> Attention:
    layer, options = KINDS[kind]
    if kind in ("block sparse", "kernel"):
        options = {**options, "seed": 5}
    return randomised(layer(D, H, num_key_value_heads=2, **options, **more))


KINDS_BOTH_WAYS = [(kind, False) for kind in KINDS] + [(kind, True) for kind in CAUSAL]


def in_turns(values: list[Any]) -> list[Any]:
    """Each kind with each value; quick with one of them, and causal with another."""
    cases = []
    for kind, causal in KINDS_BOTH_WAYS:
        place = (list(KINDS).index(kind) + causal) % len(values)
        for number, value in enumerate(values):
            marks = () if number == place else pytest.mark.thorough
            cases.append(pytest.param(kind, causal, value, marks=marks))
    return cases


@pytest.mark.parametrize(
    ("kind", "causal", "sequence_info"),
    in_turns([left_padded(40, 27, to=40), packed([17, 9], [33], padding=7)]),
)
def test_positions_of_padding_mean_nothing(kind, causal, sequence_info):
    layer, x, inside = make(kind, causal=causal), floats(2, 40, D), real(sequence_info)

    @compiled_on_jax
    def answer(positions):
        return layer(x, {**sequence_info, "position_ids": positions})

    expected = ops.convert_to_numpy(answer(sequence_info["position_ids"]))
    for nonsense in (-1, 60, *np.random.default_rng(0).integers(-40, 40, (3, 2, 40))):
        positions = np.where(inside, sequence_info["position_ids"], nonsense).astype(
            "int32"
        )
        outputs = ops.convert_to_numpy(answer(positions))
        np.testing.assert_array_equal(outputs[inside], expected[inside])
        assert np.isfinite(outputs).all()


@pytest.mark.parametrize(("kind", "causal", "is_packed"), in_turns([False, True]))
def test_a_batch_of_no_rows(kind, causal, is_packed):
    sequence_info = packed([17, 9], [33]) if is_packed else padded(33, to=33)
    sequence_info = {name: ids[:0] for name, ids in sequence_info.items()}
    options = {}
    if kind in SEEN_BY_PAIRS:
        options["score_bias"] = RelativeBias(8, 16)
        sequence_info["bias_table"] = floats(8, H)
    layer, x = make(kind, causal=causal, **options), keras.Variable(floats(0, 33, D))
    outputs, gradients = value_and_gradients(
        lambda: layer(ops.convert_to_tensor(x), sequence_info),
        [x, *layer.trainable_variables],
    )
    assert outputs.shape == (0, 33, D)
    assert not any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("kind", SEEN_BY_PAIRS)
def test_a_table_of_biases_is_not_rounded(kind):
    score_bias = RelativeBias(8, 16)
    layer = make(kind, score_bias=score_bias, dtype="mixed_bfloat16")
    layer.query.set_weights([0.0 * w for w in layer.query.get_weights()])
    # In bfloat16 one number follows another by half at this size.
    table = 100.0 + np.random.default_rng(0).uniform(0, 0.2, (8, H))
    sequence_info = {**padded(3, to=3), "bias_table": table.astype("float32")}
    with layer.probabilities.watch() as seen:
        layer(floats(1, 3, D), sequence_info)
    probabilities = ops.convert_to_numpy(seen[0]).reshape(H, -1, seen[0].shape[-1])
    bias = score_bias(np.array([0]), np.arange(3), sequence_info["bias_table"])
    expected = ops.convert_to_numpy(ops.softmax(bias))  # of the first token
    first = probabilities[:, 0]
    for head in range(H):
        found = first[head][first[head] > 1e-6]  # no other keys of its window
        np.testing.assert_allclose(
            np.sort(found), np.sort(expected[head, 0]), atol=1e-4
        )
    assert np.ptp(expected[0]) > 0.01


@pytest.mark.parametrize("kind", ["full", "sliding window"])
def test_a_step_reads_the_table_as_the_whole_does(kind):
    layer = make(
        kind, causal=True, score_bias=RelativeBias(8, 16, False), dtype="mixed_bfloat16"
    )
    layer.query.set_weights([0.0 * w for w in layer.query.get_weights()])
    table = 100.0 + np.random.default_rng(0).uniform(-0.24, 0.24, (8, H))
    x, table = floats(1, 6, D), table.astype("float32")
    sequence_info = {**padded(6, to=6), "bias_table": table}
    whole = ops.convert_to_numpy(ops.cast(layer(x, sequence_info), "float32"))
    sequence_info["position_ids"] = np.arange(6, dtype="int32")[None]
    stepped, _ = layer.step(x, sequence_info, layer.make_cache(1, 6), 0)
    stepped = ops.convert_to_numpy(ops.cast(stepped, "float32"))
    # Two roundings to eight bits of values of some units.
    np.testing.assert_allclose(whole, stepped, rtol=0, atol=0.03)


@tensorflow_only
@pytest.mark.parametrize(
    ("kind", "causal", "names"),
    in_turns([["padding_mask"], ["document_ids", "position_ids"]]),
)
def test_whole_numbers_are_not_transposed(kind, causal, names):
    # oneDNN prints a line about it on processors without AVX-512.
    import tensorflow as tf

    layer = make(kind, causal=causal)

    @tf.function
    def gradient(x, **sequence_info):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(layer(x, sequence_info))
        return tape.gradient(total, x)

    sequence_info = {name: tf.TensorSpec((2, 40), "int32") for name in names}
    graph = gradient.get_concrete_function(
        tf.TensorSpec((2, 40, D)), **sequence_info
    ).graph
    transposed = [
        op.inputs[0].dtype for op in graph.get_operations() if op.type == "Transpose"
    ]
    assert set(transposed) <= {tf.float32}
