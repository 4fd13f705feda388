"""A dense layer on a matrix gives what Keras's does."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.conftest import tensorflow_only
from tests.model.kernels.comparing import assert_same, in_graph
from transbeam.model.kernels.dense import ENOUGH_TOKENS, dense, plain_dense
from transbeam.model.kernels.dispatch import plain
from transbeam.model.kernels.elementwise import gelu
from transbeam.model.kernels.matmul_dtype import set_matmul_dtype
from transbeam.model.kernels.matmul_measurement import DTYPES

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


@pytest.fixture
def multiply_in():
    yield set_matmul_dtype
    set_matmul_dtype(None)


@pytest.fixture(params=DTYPES)
def matmul_dtype(request, multiply_in):
    multiply_in(request.param)
    return request.param


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_bfloat16_multiplied_in_either_dtype(matmul_dtype, activation):
    rng = np.random.default_rng(1)
    tokens = ENOUGH_TOKENS
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


def product_dtype(tokens):
    """The dtype of a bfloat16 layer's product, by its graph."""
    traced = tf.function(lambda x: dense(x, tf.ones((3, 5), "bfloat16")))
    graph = traced.get_concrete_function(tf.TensorSpec((tokens, 3), "bfloat16")).graph
    [product] = [op for op in graph.get_operations() if op.type == "MatMul"]
    return product.outputs[0].dtype


def test_bfloat16_of_many_tokens_is_multiplied_in_the_dtype_that_is_set(matmul_dtype):
    assert product_dtype(tokens=64) == matmul_dtype


def test_bfloat16_of_few_tokens_and_of_exports_is_never_widened(multiply_in):
    multiply_in("float32")
    assert product_dtype(tokens=8) == "bfloat16"
    with plain():
        assert product_dtype(tokens=64) == "bfloat16"
