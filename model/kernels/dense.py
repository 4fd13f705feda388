"""A dense layer that TensorFlow fuses to one kernel."""

from collections.abc import Callable
from typing import Any

from keras import ops

from transbeam.model.kernels.dispatch import is_plain, on_tensorflow
from transbeam.model.kernels.matmul_dtype import matmul_dtype
from transbeam.model.kernels.shapes import reshape

ENOUGH_TOKENS = 64


def dense(
    inputs: Any,
    kernel: Any,
    bias: Any = None,
    activation: Callable[[Any], Any] | None = None,
) -> Any:
    """`activation(inputs @ kernel + bias)`.

    TensorFlow's graph optimizer fuses a matrix product, a `BiasAdd` and an activation
    (ReLU, GELU in float32) to one kernel, so that the last two cost almost nothing; but
    only if no op is in between, and Keras's `Dense` has a reshape and an `Add`. So on
    TensorFlow this function reshapes its inputs to a matrix once, before the matrix
    product, and leaves no op between product, `BiasAdd` and activation. The function
    consists of plain TensorFlow ops, so exported models benefit too.

    If a CPU multiplies bfloat16 slowly, the product is computed in float32 and cast
    back after the activation, which takes half the time and rounds only once.

    Args:
        inputs: float `(..., D)`.
        kernel: float `(D, units)`.
        bias: float `(units,)` or None.
        activation: An elementwise function of the sum; None for no activation.

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
    """Reference implementation of `dense` in `keras.ops`."""
    outputs = ops.matmul(inputs, kernel)
    if bias is not None:
        outputs = ops.add(outputs, bias)
    return outputs if activation is None else activation(outputs)


def _dense_on_a_matrix(inputs, kernel, bias, activation):
    import tensorflow as tf

    inputs, kernel = ops.convert_to_tensor(inputs), ops.convert_to_tensor(kernel)
    dtype = inputs.dtype
    width, units = kernel.shape
    matrix = tf.reshape(inputs, (-1, width))
    if should_widen(inputs):
        matrix, kernel = tf.cast(matrix, "float32"), tf.cast(kernel, "float32")
    outputs = tf.matmul(matrix, kernel)
    if bias is not None:
        outputs = tf.nn.bias_add(outputs, tf.cast(bias, outputs.dtype))
    if activation is not None:
        outputs = activation(outputs)
    outputs = tf.cast(outputs, dtype)
    return reshape(outputs, (*ops.shape(inputs)[:-1], units))


def should_widen(inputs) -> bool:
    """Checks if bfloat16 `inputs` are multiplied faster when widened to float32.

    The speed is measured on the machine. With few tokens the time is dominated by
    reading the kernel, which a wider dtype would slow down.
    """
    if not on_tensorflow():
        return False
    tokens = inputs.shape[:-1].num_elements()
    return (
        inputs.dtype == "bfloat16"
        and tokens is not None
        and tokens >= ENOUGH_TOKENS
        and not is_plain()
        and matmul_dtype() == "float32"
    )
