"""A kernel beside its reference: the same values, the same gradients."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

# The rounding of a result, and of the few half-precision numbers it is made of.
TOLERANCE = {"float32": 2e-5, "bfloat16": 4e-2, "float16": 5e-3}


def values_and_gradients(
    function: Callable[..., tf.Tensor], inputs: Sequence[tf.Tensor], worth: np.ndarray
) -> list[np.ndarray]:
    """Returns a function's value, and the gradients of its sum weighted by `worth`."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = function(*inputs)
        total = tf.reduce_sum(tf.cast(outputs, "float32") * worth)
    gradients = tape.gradient(total, inputs)
    arrays = [tf.convert_to_tensor(x) for x in (outputs, *gradients)]
    return [tf.cast(x, "float32").numpy() for x in arrays]


def in_graph(function: Callable[..., tf.Tensor], *, free: int = 0) -> Callable:
    """The function traced, with the first `free` sizes of each input unknown."""

    def call(*inputs):
        specs = [
            tf.TensorSpec([None] * free + x.shape[free:].as_list(), x.dtype)
            if x.shape.rank > 2
            else tf.TensorSpec(x.shape, x.dtype)
            for x in inputs
        ]
        traced = tf.function(function, input_signature=specs, autograph=False)
        return traced(*inputs)

    return call


def assert_same(ours: Callable, theirs: Callable, inputs, worth, dtype: str) -> None:
    """Compares relative to the largest number of each array."""
    found = values_and_gradients(ours, inputs, worth)
    expected = values_and_gradients(theirs, inputs, worth)
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        atol = TOLERANCE[dtype] * max(1.0, float(np.abs(b).max()))
        np.testing.assert_allclose(a, b, rtol=0, atol=atol, err_msg=f"array {number}")
