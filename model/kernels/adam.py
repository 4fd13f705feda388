"""An update of AdamW's in one pass over a weight and its two moments."""

from typing import Any

from transbeam.model.kernels.dispatch import on_tensorflow
from transbeam.model.kernels.elementwise_reference import Three, plain_adam_update


def adam_update(
    values: Three, gradient: Any, rates: Three, betas: tuple[float, float]
) -> Three:
    """A weight and its moments after a step.

    Written op by op, a dozen ops read and write all of a weight; one kernel of XLA's
    reads four arrays and writes three.

    Args:
        values: The weight, the mean of gradients and the mean of their squares, all of
            one shape.
        gradient: Of that shape.
        rates: float32 scalars: what the step is multiplied with, the share of the
            weight that decays, and what is added to the root.
        betas: How much of either mean stays, two floats.

    Returns:
        The three values anew.

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
