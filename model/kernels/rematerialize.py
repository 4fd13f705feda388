"""Rematerialization: recomputes results in the backward pass."""

from collections.abc import Callable
from typing import Any

from transbeam.model.kernels.dispatch import on_tensorflow


def rematerialize(function: Callable[..., Any], *inputs: Any) -> Any:
    """Computes `function(*inputs)`, storing only the inputs for the gradient.

    Args:
        function: A function that takes float tensors and returns one tensor. `function`
            is called twice and must return the same values: randomness must be passed
            in.
        inputs: Inputs that get gradients, as do the variables that `function` reads.

    References:
        - [Chen et al., 2016](https://arxiv.org/abs/1604.06174)
    """
    if on_tensorflow():
        import tensorflow as tf

        return tf.recompute_grad(function)(*inputs)
    import jax

    return jax.checkpoint(function)(*inputs)
