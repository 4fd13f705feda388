"""A dense layer on a matrix gives what Keras's does."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from model.kernels import dense as dense_module
from model.kernels.activations import gelu
from model.kernels.dense import dense, plain_dense
from tests.model.conftest import tensorflow_only
from tests.model.kernels.comparing import assert_same, in_graph

pytestmark = tensorflow_only
ACTIVATIONS = [None, keras.ops.relu, gelu]


@settings(max_examples=25, deadline=None)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    units=st.integers(1, 5),
    biased=st.booleans(),
    activation=st.sampled_from(ACTIVATIONS),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
    traced=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_same_as_reference(shape, units, biased, activation, dtype, traced, seed):
    rng = np.random.default_rng(seed)
    shapes = [(*shape, 3), (3, units), *([(units,)] if biased else [])]
    inputs = [tf.cast(rng.normal(size=size), dtype) for size in shapes]
    worth = rng.normal(size=(*shape, units)).astype("float32")

    def run(function):
        return lambda x, kernel, bias=None: function(x, kernel, bias, activation)

    ours = in_graph(run(dense)) if traced else run(dense)
    assert_same(ours, run(plain_dense), inputs, worth, dtype)


@pytest.mark.parametrize("free", [1, 2])
def test_sizes_that_are_not_known(free):
    rng = np.random.default_rng(0)
    inputs = [
        tf.constant(rng.normal(size=size), "float32")
        for size in ((2, 3, 4), (4, 5), (5,))
    ]
    worth = rng.normal(size=(2, 3, 5)).astype("float32")
    assert_same(in_graph(dense, free=free), plain_dense, inputs, worth, "float32")


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_bfloat16_with_and_without_a_matrix_unit(monkeypatch, slow, activation):
    monkeypatch.setattr(dense_module, "_multiplies_bfloat16_slowly", lambda: slow)
    rng = np.random.default_rng(1)
    tokens = dense_module.ENOUGH_TOKENS
    inputs = [
        tf.cast(rng.normal(size=size), "bfloat16")
        for size in ((tokens, 3), (3, 5), (5,))
    ]
    worth = rng.normal(size=(tokens, 5)).astype("float32")

    def run(function):
        return lambda *arrays: function(*arrays, activation)

    x, kernel, _ = inputs
    assert dense(x, kernel).dtype == "bfloat16"
    assert_same(run(dense), run(plain_dense), inputs, worth, "bfloat16")


@pytest.mark.parametrize(("tokens", "widened"), [(64, True), (8, False)])
def test_bfloat16_is_widened_for_many_tokens_only(monkeypatch, tokens, widened):
    monkeypatch.setattr(dense_module, "_multiplies_bfloat16_slowly", lambda: True)
    traced = tf.function(lambda x: dense(x, tf.ones((3, 5), "bfloat16")))
    graph = traced.get_concrete_function(tf.TensorSpec((tokens, 3), "bfloat16")).graph
    [product] = [op for op in graph.get_operations() if op.type == "MatMul"]
    assert (product.outputs[0].dtype == "float32") == widened
