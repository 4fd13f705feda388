"""A size that is not known costs nothing, and changes nothing."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.model.conftest import tensorflow_only
from transbeam.model.kernels.shapes import reshape


@pytest.mark.quick_on_jax
@pytest.mark.parametrize("shape", [(2, 3, 4), (6, 4), (2, -1), (24,)])
def test_known_sizes(shape):
    x = ops.reshape(ops.arange(24), (4, 6))
    np.testing.assert_array_equal(reshape(x, shape), ops.reshape(x, shape))


def split(x):
    rows, length, width = ops.shape(x)
    return reshape(x, (rows, length, width // 2, 2))


def ops_of(function, shape):
    spec = tf.TensorSpec(shape, tf.float32)
    return {
        op.type
        for op in tf.function(function)
        .get_concrete_function(spec)
        .graph.get_operations()
    }


@tensorflow_only
def test_one_size_that_is_not_known_is_not_computed():
    assert "Pack" not in ops_of(split, (1, None, 4))
    found = tf.function(split, input_signature=[tf.TensorSpec((1, None, 4))])
    x = tf.reshape(tf.range(12.0), (1, 3, 4))
    np.testing.assert_array_equal(found(x), tf.reshape(x, (1, 3, 2, 2)))


@tensorflow_only
def test_two_sizes_that_are_not_known():
    found = tf.function(split, input_signature=[tf.TensorSpec((None, None, 4))])
    x = tf.reshape(tf.range(24.0), (2, 3, 4))
    np.testing.assert_array_equal(found(x), tf.reshape(x, (2, 3, 2, 2)))
