"""Gradients on whichever backend Keras runs."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np


def value_and_gradients(
    function: Callable[[], Any], variables: Sequence[keras.Variable]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Returns a function's value, and the gradients of its sum by each variable.

    Args:
        function: Takes nothing, reads the variables, returns a float tensor.
        variables: Keras variables.
    """
    if keras.backend.backend() == "jax":
        value, gradients = _jax(function, variables)
    else:
        value, gradients = _tensorflow(function, variables)
    return np.asarray(value), [np.asarray(gradient) for gradient in gradients]


def _jax(function: Callable[[], Any], variables: Sequence[keras.Variable]) -> Any:
    import jax

    def total(values: list[Any]) -> Any:
        pairs = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=pairs):
            value = function()
        return value.sum(), value

    values = [variable.value for variable in variables]
    (_, value), gradients = jax.jit(jax.value_and_grad(total, has_aux=True))(values)
    return value, gradients


def _tensorflow(
    function: Callable[[], Any], variables: Sequence[keras.Variable]
) -> Any:
    import tensorflow as tf

    sources = [variable.value for variable in variables]
    with tf.GradientTape() as tape:
        value = function()
        total = tf.reduce_sum(value)
    # A gather's gradient is a list of rows: here as a whole tensor.
    gradients = tape.gradient(total, sources, unconnected_gradients="zero")
    return value, [tf.convert_to_tensor(gradient) for gradient in gradients]
