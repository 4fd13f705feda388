"""A dense layer that TensorFlow makes one kernel of."""

from collections.abc import Callable
from typing import Any

from keras import ops

from model.kernels import on_tensorflow


def dense(
    inputs: Any,
    kernel: Any,
    bias: Any = None,
    activation: Callable[[Any], Any] | None = None,
) -> Any:
    """`activation(inputs @ kernel + bias)`.

    TensorFlow's optimizer makes one kernel of a matrix product, a `BiasAdd` and an
    activation (ReLU, GELU in float32), so that the last two cost next to nothing; but
    only with nothing in between, where Keras's `Dense` changes the shape and adds. So
    this works on a matrix to the end. The ops are plain ones: exports gain as well.

    Args:
        inputs: float `(..., D)`.
        kernel: float `(D, units)`.
        bias: float `(units,)` or None.
        activation: What to do with the sum, elementwise; None for nothing.

    Returns:
        `(..., units)` in the dtype of `inputs`.

    Example:
    >>> x = ops.ones((1, 3, 2))
    >>> y = dense(x, ops.ones((2, 1)), ops.array([-4.0]), ops.relu)
    >>> ops.convert_to_numpy(y).ravel()
    array([0., 0., 0.], dtype=float32)
    """
    if on_tensorflow():
        return _dense_on_a_matrix(inputs, kernel, bias, activation)
    return plain_dense(inputs, kernel, bias, activation)


def plain_dense(
    inputs: Any,
    kernel: Any,
    bias: Any = None,
    activation: Callable[[Any], Any] | None = None,
) -> Any:
    """As `dense`, in `keras.ops`: the reference."""
    outputs = ops.matmul(inputs, kernel)
    if bias is not None:
        outputs = ops.add(outputs, bias)
    return outputs if activation is None else activation(outputs)


def _dense_on_a_matrix(inputs, kernel, bias, activation):
    import tensorflow as tf

    inputs, kernel = ops.convert_to_tensor(inputs), ops.convert_to_tensor(kernel)
    width, units = kernel.shape
    outputs = tf.matmul(tf.reshape(inputs, (-1, width)), kernel)
    if bias is not None:
        outputs = tf.nn.bias_add(outputs, ops.convert_to_tensor(bias))
    if activation is not None:
        outputs = activation(outputs)
    return tf.reshape(outputs, (*ops.shape(inputs)[:-1], units))
