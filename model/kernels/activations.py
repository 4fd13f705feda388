"""GELU in float32, whatever its input."""

from typing import Any

from keras import ops

from transbeam.model.kernels.dispatch import has_many_tokens, is_plain, on_tensorflow


def gelu(x: Any, approximate: bool = False) -> Any:
    """`x` times the normal distribution function of `x`.

    The error function has neither an exact nor a fast half-precision kernel on a CPU.
    With TensorFlow, half precision is widened and narrowed inside one XLA kernel, if
    there are enough tokens for that to pay off; float32 uses TensorFlow's op, which is
    fused into the preceding matrix product (see `transbeam.model.kernels.dense`). The
    gradient is one kernel for both, and keeps only `x`, where TensorFlow's keeps three
    tensors of that size.

    Args:
        x: float tensor of any shape.
        approximate: If true, uses the tanh approximation.

    Returns:
        Same shape and dtype as `x`.

    Example:
    >>> ops.convert_to_numpy(gelu(ops.array([-1.0, 0.0, 1.0]))).round(4)
    array([-0.1587,  0.    ,  0.8413], dtype=float32)

    References:
        - [Hendrycks & Gimpel, 2016](https://arxiv.org/abs/1606.08415), section 2
    """
    if on_tensorflow() and not is_plain() and has_many_tokens(x):
        from transbeam.model.kernels import xla_fusion

        return xla_fusion.gelu(x, approximate)
    return plain_gelu(x, approximate)


def plain_gelu(x: Any, approximate: bool = False) -> Any:
    """As `gelu`, in `keras.ops`: the reference."""
    wide = ops.cast(x, "float32")
    return ops.cast(ops.gelu(wide, approximate=approximate), x.dtype)
