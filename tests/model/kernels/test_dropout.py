"""Dropout by a hash: one mask on every backend, and one that is random."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.model.conftest import tensorflow_only
from transbeam.model.kernels.dispatch import plain
from transbeam.model.kernels.elementwise import dropout
from transbeam.model.kernels.elementwise_reference import plain_dropout
from transbeam.model.layers.dropout import Dropout

SEED = np.array([7, 3], "uint32")
FIRST = "0001010000100100100110001010010010111100"


def mask(size: int, rate: float, seed) -> np.ndarray:
    x = dropout(ops.ones((size,)), rate, ops.array(seed, dtype="uint32"))
    return ops.convert_to_numpy(x) > 0


@pytest.mark.quick_on_jax
def test_the_mask_of_a_seed_for_ever() -> None:
    """Checkpoints of a training hang on it, on TensorFlow and on JAX."""
    found = mask(40, 0.5, SEED).astype(int)
    assert "".join(map(str, found)) == FIRST


def test_the_share_and_the_scale() -> None:
    for rate in (0.1, 0.5, 0.9):
        x = ops.convert_to_numpy(dropout(ops.ones((400_000,)), rate, ops.array(SEED)))
        kept = x > 0
        error = np.sqrt(rate * (1 - rate) / len(x))
        assert abs(kept.mean() - (1 - rate)) < 4 * error
        np.testing.assert_allclose(x[kept], 1 / (1 - rate), rtol=1e-6)


@pytest.mark.parametrize(
    "other", [[7, 4], [8, 3], [7, 3 + 2**16], [3, 7], [7 + 2**31, 3]]
)
@pytest.mark.parametrize("shift", [0, 1, 64])
def test_masks_of_other_seeds_and_places_have_nothing_in_common(other, shift) -> None:
    size = 200_000
    one = mask(size + shift, 0.5, SEED)[shift:]
    two = mask(size, 0.5, other)
    assert abs((one == two).mean() - 0.5) < 4 * 0.5 / np.sqrt(size)


@pytest.mark.parametrize("distance", [1, 2, 64, 256, 4096])
def test_neighbours_have_nothing_in_common(distance) -> None:
    found = mask(300_000, 0.5, SEED)
    same = (found[distance:] == found[:-distance]).mean()
    assert abs(same - 0.5) < 4 * 0.5 / np.sqrt(len(found) - distance)


@tensorflow_only
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_kernel_and_gradient_are_the_reference(dtype) -> None:
    import tensorflow as tf

    random = np.random.default_rng(0)
    x = tf.cast(random.normal(size=(3, 5, 8)), dtype)
    worth = tf.cast(random.normal(size=(3, 5, 8)), dtype)
    results = []
    for function in (dropout, plain_dropout):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x, 0.3, ops.array(SEED))
        results.append((y, tape.gradient(y, x, worth)))
    for ours, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, expected)
    assert not np.array_equal(results[0][0], x)


@tensorflow_only
def test_no_kernel_of_xlas_in_plain_graphs() -> None:
    import tensorflow as tf

    with plain():
        traced = tf.function(lambda x: dropout(x, 0.5, ops.array(SEED)))
        graph = traced.get_concrete_function(tf.TensorSpec((4,))).graph
    assert not graph.as_graph_def().library.function


@pytest.mark.quick_on_jax
def test_the_layer_draws_anew_each_time_and_can_be_saved() -> None:
    layer = Dropout(0.5, seed=1)
    x = ops.ones((4, 64))
    first, second = (ops.convert_to_numpy(layer(x, training=True)) for _ in range(2))
    assert (first != second).any()
    np.testing.assert_array_equal(layer(x), x)
    again = Dropout.from_config(layer.get_config())
    np.testing.assert_array_equal(again(x, training=True), first)
    assert isinstance(layer, keras.layers.Dropout)
