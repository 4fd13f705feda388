"""Kernels made by XLA give what the plain ops give."""

from contextlib import nullcontext

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.conftest import others_thorough, tensorflow_only
from tests.model.kernels.comparing import assert_same, in_graph
from transbeam.model.kernels import dispatch as kernels
from transbeam.model.kernels.dispatch import plain
from transbeam.model.kernels.elementwise import gelu, layer_normalization
from transbeam.model.kernels.elementwise_reference import (
    plain_gelu,
    plain_layer_normalization,
)

pytestmark = tensorflow_only
DTYPES = ["float32", "bfloat16", "float16"]
EPSILON = 1e-6


@pytest.fixture(scope="module", autouse=True)
def few_tokens():
    """Islands for the few tokens of these tests as well."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(kernels, "FEWEST_TOKENS", 1)
        yield


def normal(rng, shape, dtype, spread=1.0):
    return tf.cast(rng.normal(size=shape, scale=spread), dtype)


@settings(max_examples=10, deadline=None)
@given(
    length=st.sampled_from([1, 7]),  # each shape is compiled anew
    dtype=st.sampled_from(DTYPES),
    approximate=st.booleans(),
    traced=st.booleans(),
    spread=st.sampled_from([0.1, 1.0, 10.0]),
    seed=st.integers(0, 2**31),
)
def test_gelu(length, dtype, approximate, traced, spread, seed):
    rng = np.random.default_rng(seed)
    x = normal(rng, (2, length, 5), dtype, spread)
    worth = rng.normal(size=x.shape).astype("float32")

    def ours(x):
        return gelu(x, approximate)

    def exactly(x):  # in float32 from end to end
        return plain_gelu(tf.cast(x, "float32"), approximate)

    assert_same(in_graph(ours, free=1) if traced else ours, exactly, [x], worth, dtype)


@pytest.mark.parametrize("seed", others_thorough(range(4), [1]))
@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    ("dtype", "weights"), [*((dtype, "float32") for dtype in DTYPES), ("bfloat16",) * 2]
)
def test_layer_normalization(dtype, weights, traced, seed):
    rng = np.random.default_rng(seed)
    x = normal(rng, (3, 4, 8), dtype) + tf.cast(3 * seed, dtype)
    gamma, beta = normal(rng, (8,), weights), normal(rng, (8,), weights)
    worth = rng.normal(size=x.shape).astype("float32")

    def run(function):
        return lambda x, gamma, beta: function(x, gamma, beta, EPSILON)

    ours = run(layer_normalization)
    ours = in_graph(ours, free=2) if traced else ours
    reference = run(plain_layer_normalization)
    assert_same(ours, reference, [x, gamma, beta], worth, dtype)


def compiled_calls(function, context) -> int:
    def call(x):
        with context:
            return function(x)

    traced = tf.function(call, autograph=False)
    graph = traced.get_concrete_function(tf.TensorSpec((3, 8), "bfloat16")).graph
    return str(graph.as_graph_def().library).count("_XlaMustCompile")


each_function = pytest.mark.parametrize(
    "function",
    [gelu, lambda x: layer_normalization(x, tf.ones(8), tf.zeros(8), EPSILON)],
    ids=["gelu", "layer_normalization"],
)


@each_function
def test_no_island_in_a_plain_graph(function):
    assert compiled_calls(function, nullcontext()) > 0
    assert compiled_calls(function, plain()) == 0


@each_function
def test_no_island_for_few_tokens(function, monkeypatch):
    monkeypatch.setattr(kernels, "FEWEST_TOKENS", 4)
    assert compiled_calls(function, nullcontext()) == 0
