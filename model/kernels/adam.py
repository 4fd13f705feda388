"""The AdamW update in one pass over a weight and its two moments."""

from typing import Any

from transbeam.model.kernels.dispatch import on_tensorflow
from transbeam.model.kernels.elementwise_reference import Three, plain_adam_update


def adam_update(
    values: Three, gradient: Any, rates: Three, betas: tuple[float, float]
) -> Three:
    """Computes a weight and its moments after a step.

    As separate ops, a dozen of them read and write the whole weight; one XLA kernel
    reads four arrays and writes three.

    Args:
        values: The weight, the mean of gradients and the mean of their squares, all of
            one shape.
        gradient: The gradient, of the same shape.
        rates: float32 scalars: the step size, the decayed share of the weight, and the
            epsilon added to the root.
        betas: The decay rates of the two means, two floats.

    Returns:
        The three new values.

    Example:
    >>> from keras import ops
    >>> weight, zero = ops.array([1.0]), ops.zeros(1)
    >>> gradient = ops.ones(1)
    >>> weight, mean, square = adam_update(
    ...     (weight, zero, zero), gradient, (0.1, 0.5, 0.0), (0.5, 0.75)
    ... )
    >>> round(float(weight[0]), 6)  # half of it decays, then 0.1 * 0.5 / sqrt(0.25)
    0.4

    References:
        - [Loshchilov & Hutter, 2019](https://arxiv.org/abs/1711.05101), algorithm 2
    """
    if on_tensorflow():
        from transbeam.model.kernels import xla_fusion

        return xla_fusion.adam_update(values, gradient, rates, betas)
    return plain_adam_update(values, gradient, rates, betas)
