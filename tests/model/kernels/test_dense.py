"""A dense layer on a matrix gives what Keras's does."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from model.kernels.activations import gelu
from model.kernels.dense import dense, plain_dense
from tests.model.kernels.comparing import assert_same, in_graph

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
