"""Elementwise operations: GELU, layer normalization, dropout and AdamW's update.

With TensorFlow each operation can run as one XLA kernel, under the conditions in its
docstring; otherwise the reference in `keras.ops` runs.
"""

import math
from typing import Any

from transbeam.model.kernels.dispatch import has_many_tokens, is_plain, on_tensorflow
from transbeam.model.kernels.elementwise_reference import (
    Three,
    plain_adam_update,
    plain_dropout,
    plain_gelu,
    plain_layer_normalization,
)


def gelu(x: Any, approximate: bool = False) -> Any:
    """`x` times the normal distribution function of `x`.

    The error function has neither an exact nor a fast half-precision kernel on CPUs.
    With TensorFlow, half precision is converted to float32 and back inside one XLA
    kernel, if there are enough tokens for that to be faster; float32 uses TensorFlow's
    op, which is fused into the preceding matrix product (see
    `transbeam.model.kernels.dense`). The gradient is one XLA kernel, in float32 and in
    half precision, and stores only `x`, whereas TensorFlow's gradient stores three
    tensors of that size.

    Args:
        x: float tensor of any shape.
        approximate: If true, uses the tanh approximation.

    Returns:
        Same shape and dtype as `x`.

    Example:
    >>> from keras import ops
    >>> ops.convert_to_numpy(gelu(ops.array([-1.0, 0.0, 1.0]))).round(4)
    array([-0.1587,  0.    ,  0.8413], dtype=float32)

    References:
        - [Hendrycks & Gimpel, 2016](https://arxiv.org/abs/1606.08415), section 2
    """
    if on_tensorflow() and not is_plain() and has_many_tokens(x):
        from transbeam.model.kernels import xla_fusion

        return xla_fusion.gelu(x, approximate)
    return plain_gelu(x, approximate)


def layer_normalization(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Normalizes each vector to mean 0 and variance 1, then rescales it.

    With TensorFlow, layer normalization is one XLA kernel instead of eight passes over
    `x`, and so is its gradient. An XLA kernel does not pay off for the few tokens of a
    decoding step.

    Args:
        x: float `(..., D)`.
        gamma: float `(D,)`.
        beta: float `(D,)`.
        epsilon: A small number that is added to the variance.

    Returns:
        Same shape and dtype as `x`. Computed in float32.

    Example:
    >>> from keras import ops
    >>> x = ops.array([[1.0, 2.0, 3.0]])
    >>> normal = layer_normalization(x, ops.ones(3), ops.zeros(3), 1e-12)
    >>> ops.convert_to_numpy(normal).round(3)
    array([[-1.225,  0.   ,  1.225]], dtype=float32)

    References:
        - [Ba et al., 2016](https://arxiv.org/abs/1607.06450), equation 3
    """
    if on_tensorflow() and not is_plain() and has_many_tokens(x):
        from transbeam.model.kernels import xla_fusion

        return xla_fusion.layer_normalization(x, gamma, beta, epsilon)
    return plain_layer_normalization(x, gamma, beta, epsilon)


def dropout(x: Any, rate: float, seed: Any) -> Any:
    """Sets a share of all elements to 0 and scales the others to keep the mean.

    Args:
        x: float, of any shape.
        rate: The share of dropped elements, in `(0, 1)`, with a resolution of 2^-32.
        seed: uint32 `(2,)`. The same seed gives the same mask, on every backend.

    Returns:
        Same shape and dtype as `x`.

    Raises:
        ValueError: There are 2^31 elements or more.

    Example:
    >>> from keras import ops
    >>> x = dropout(ops.ones((1000,)), 0.5, ops.array([1, 2], dtype="uint32"))
    >>> sorted(set(ops.convert_to_numpy(x).tolist()))
    [0.0, 2.0]

    References:
        - [Srivastava et al., 2014](https://jmlr.org/papers/v15/srivastava14a.html)
        - Mixing steps: MurmurHash3's finalizer, by Austin Appleby (public domain)
    """
    if None not in x.shape and math.prod(x.shape) >= 2**31:
        raise ValueError(
            f"dropout of {math.prod(x.shape):,} elements at once, expected fewer than "
            "2^31. Smaller batches have fewer, or more training.accumulation"
        )
    if on_tensorflow() and not is_plain():
        from transbeam.model.kernels import xla_fusion

        return xla_fusion.dropout(x, rate, seed)
    return plain_dropout(x, rate, seed)


def adam_update(
    values: Three, gradient: Any, rates: Three, betas: tuple[float, float]
) -> Three:
    """Computes a weight and its moments after an AdamW step.

    Without fusion, about a dozen ops each read and write the whole weight; one XLA
    kernel reads four arrays and writes three.

    Args:
        values: The weight, the mean of gradients and the mean of their squares, all of
            one shape.
        gradient: The gradient, of the weight's shape.
        rates: float32 scalars: the learning rate, the learning rate times the weight
            decay, and the epsilon added to the root.
        betas: The decay rates of the two means, two floats.

    Returns:
        The new weight and its two new moments.

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
