"""Fused QKV projection: queries, keys and values from one product instead of three.

The time to generate a token is dominated by reading the weights, and one large matrix
is read faster than three small ones. The three matrices are concatenated once per
generated text, outside of the decoding loop; in training, concatenating them in every
step would cost more time than it saves.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import keras
from keras import ops

from transbeam.model.kernels.dispatch import setting

Joined = tuple[Any, Any]  # kernel (D, (H + 2 G) K) and bias or None

_NONE: Mapping[int, Joined] = MappingProxyType({})
_joined: ContextVar[Mapping[int, Joined]] = ContextVar("joined", default=_NONE)


def join_projections(attention: keras.layers.Layer) -> Joined | None:
    """Concatenates the three kernels, and the biases, in the compute dtype.

    Args:
        attention: A layer with the dense layers `query`, `key` and `value`.

    Returns:
        Kernel and bias; None if a kernel is quantized, because quantized layers compute
        the matrix product differently.

    Example:
    >>> from transbeam.model.layers.attention.full import MultiHeadAttention
    >>> attention = MultiHeadAttention(4, 2, num_key_value_heads=1)
    >>> attention.build((None, None, 4))
    >>> kernel, bias = join_projections(attention)
    >>> tuple(kernel.shape), tuple(bias.shape)
    ((4, 8), (8,))
    """
    layers = (attention.query, attention.key, attention.value)
    if any(layer.quantization_mode for layer in layers):
        return None
    dtype = attention.compute_dtype
    kernel = ops.concatenate([ops.cast(layer.kernel, dtype) for layer in layers], 1)
    if not layers[0].use_bias:
        return kernel, None
    return kernel, ops.concatenate([ops.cast(layer.bias, dtype) for layer in layers], 0)


def joined_projections(joined: Mapping[int, Joined]) -> AbstractContextManager[None]:
    """In this context, attention layers use their fused projections, given by `id`."""
    return setting(_joined, joined)


def joined_projection(attention: keras.layers.Layer) -> Joined | None:
    """Returns the fused projection of the layer, if it has one."""
    return _joined.get().get(id(attention))
