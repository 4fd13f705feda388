"""Results that are computed again in the backward pass, instead of being kept."""

from collections.abc import Callable
from typing import Any

from transbeam.model.kernels.dispatch import on_tensorflow


def rematerialize(function: Callable[..., Any], *inputs: Any) -> Any:
    """`function(*inputs)`, of which only the inputs stay in memory for the gradient.

    Args:
        function: Of float tensors, to one tensor. It is run twice, so it must give the
            same both times: what is random in it must come from outside.
        inputs: What it is differentiated by, beside the variables that it reads.

    References:
        - [Chen et al., 2016](https://arxiv.org/abs/1604.06174)
    """
    if on_tensorflow():
        import tensorflow as tf

        return tf.recompute_grad(function)(*inputs)
    import jax

    return jax.checkpoint(function)(*inputs)
