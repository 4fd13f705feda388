"""Groups of blocks give what all blocks at once give, and so do their gradients."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.conftest import tensorflow_only
from tests.model.kernels.comparing import assert_same
from transbeam.model.kernels import blockwise_map_tensorflow
from transbeam.model.kernels.blockwise_map import in_groups
from transbeam.model.kernels.dispatch import plain

pytestmark = tensorflow_only


def mix(rows, columns, marks, trained):
    """Of three columns, what a mark leaves of them, times a row and a weight."""
    blocks = tf.shape(rows[0])[0]
    around = tf.stack([columns[0][i : i + blocks] for i in range(3)], axis=1)
    seen = tf.where(tf.expand_dims(marks[0], 2), around, 0.0)  # (N, 3, K)
    return tf.sin(rows[0]) * tf.reduce_sum(seen, axis=1) * trained[0] + rows[1]


def calls(flags, work=1):
    """The function at once, and in groups."""

    def at_once(first, second, column, weight):
        return mix([first, second], [column], [flags], [weight])

    def one_by_one(first, second, column, weight):
        return in_groups(mix, [first, second], [column], [flags], [weight], work)

    return one_by_one, at_once


def case(blocks: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    shapes = [(blocks, 4), (blocks, 4), (blocks + 2, 4), (4,)]
    inputs = [tf.constant(rng.normal(size=shape), "float32") for shape in shapes]
    flags = tf.constant(rng.random((blocks, 3)) < 0.6)
    return inputs, flags, rng.normal(size=(blocks, 4)).astype("float32")


@settings(max_examples=20)
@given(st.integers(1, 9), st.integers(1, 10))
def test_values_and_gradients(blocks, at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blockwise_map_tensorflow, "WORK_AT_ONCE", at_once)
        inputs, flags, worth = case(blocks)
        ours, theirs = calls(flags)
        assert_same(ours, theirs, inputs, worth, "float32")


@pytest.mark.parametrize("work", [1, 2, 100])
def test_in_a_graph_whose_sizes_are_not_known(monkeypatch, work):
    monkeypatch.setattr(blockwise_map_tensorflow, "WORK_AT_ONCE", 4)
    inputs, flags, worth = case(7)
    ours, theirs = calls(flags, tf.constant(work))
    signature = [tf.TensorSpec((None, *x.shape[1:])) for x in inputs]
    signature[-1] = tf.TensorSpec((4,))
    traced = tf.function(ours, input_signature=signature, autograph=False)
    assert_same(traced, theirs, inputs, worth, "float32")


def test_a_plain_one_has_neither_loops_nor_gradients_written_by_hand(monkeypatch):
    monkeypatch.setattr(blockwise_map_tensorflow, "WORK_AT_ONCE", 2)
    inputs, flags, worth = case(7)
    ours, theirs = calls(flags)
    with plain():
        assert_same(ours, theirs, inputs, worth, "float32")
        graph = tf.function(ours).get_concrete_function(*inputs).graph
    assert not {op.type for op in graph.get_operations()} & {
        "IdentityN",
        "While",
        "StatelessWhile",
    }


def test_it_is_called_for_a_few_blocks_at_a_time(monkeypatch):
    monkeypatch.setattr(blockwise_map_tensorflow, "WORK_AT_ONCE", 60)
    inputs, flags, _ = case(10)
    seen = []

    def note(rows, columns, marks, trained):
        seen.append((rows[0].shape[0], columns[0].shape[0]))
        return mix(rows, columns, marks, trained)

    in_groups(note, inputs[:2], inputs[2:3], [flags], inputs[3:], work=20)
    # Three at once would make groups of 3, 3, 3 and 1: four groups.
    assert seen == [(3, 5)] * 4


def test_xla_compiles_it(monkeypatch):
    monkeypatch.setattr(blockwise_map_tensorflow, "WORK_AT_ONCE", 3)
    inputs, flags, worth = case(7)
    ours, theirs = calls(flags)

    @tf.function(jit_compile=True)
    def gradients(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            total = tf.reduce_sum(ours(*inputs) * worth)
        return tape.gradient(total, inputs)

    with tf.GradientTape() as tape:
        tape.watch(inputs)
        total = tf.reduce_sum(theirs(*inputs) * worth)
    for here, there in zip(
        gradients(*inputs), tape.gradient(total, inputs), strict=True
    ):
        np.testing.assert_allclose(here, there, rtol=0, atol=1e-5)


def test_gradients_of_what_is_trained_add_up_in_float32(monkeypatch):
    # In bfloat16 a sum of ones ends at 256.
    monkeypatch.setattr(blockwise_map_tensorflow, "WORK_AT_ONCE", 1)
    row = tf.ones((300, 1), "bfloat16")
    weight = tf.ones((1,), "bfloat16")
    with tf.GradientTape() as tape:
        tape.watch(weight)
        outputs = in_groups(
            lambda rows, columns, marks, trained: rows[0] * trained[0],
            [row],
            [row],
            [],
            [weight],
            work=1,
        )
    gradient = tape.gradient(outputs, weight)
    assert gradient.dtype == tf.bfloat16
    assert float(gradient[0]) == 300.0
