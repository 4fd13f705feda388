"""Layer normalization in float32, for inputs of any float dtype."""

from typing import Any

from keras import ops

from transbeam.model.kernels.dispatch import has_many_tokens, is_plain, on_tensorflow


def layer_normalization(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Normalizes each vector to mean 0 and variance 1, then rescales it.

    With TensorFlow this is one XLA kernel instead of eight passes, and so is its
    gradient. A decoding step has too few tokens for that to pay off.

    Args:
        x: float `(..., D)`.
        gamma: float `(D,)`.
        beta: float `(D,)`.
        epsilon: Added to the variance.

    Returns:
        Same shape and dtype as `x`. Computed in float32.

    Example:
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


def plain_layer_normalization(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """As `layer_normalization`, in `keras.ops`: the reference."""
    wide = ops.cast(x, "float32")
    centred = wide - ops.mean(wide, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
    normalised = centred * ops.rsqrt(variance + epsilon)
    gamma, beta = ops.cast(gamma, "float32"), ops.cast(beta, "float32")
    return ops.cast(normalised * gamma + beta, x.dtype)
