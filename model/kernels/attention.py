"""Fused scaled dot-product attention, without stored probabilities."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from transbeam.model.kernels.dispatch import on_tensorflow

RowBias = Callable[..., Any]


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    row_bias: RowBias | None = None,
    trained: tuple[Any, ...] = (),
    scale: float = 1.0,
) -> Any:
    """Computes scaled dot-product attention with an additive bias.

    With TensorFlow the scores are computed for some rows at a time, and recomputed for
    the gradient, so memory grows with `T` and not with its square. With JAX, JAX's own
    fused attention is used if it applies the bias without loss of precision.

    Shapes: `B` batch, `T` queries, `S` keys, `H` query heads, `G` key heads (`H` is a
    multiple of `G`: head `h` reads key head `h // (H / G)`), `K` head width.

    Args:
        query: float `(B, T, H, K)`.
        key: float `(B, S, G, K)`.
        value: float `(B, S, G, K)`.
        row_bias: `row_bias(start, size, *trained)` returns the bias of the scores of
            the `size` queries from `start` on: float32, of rank 4 and broadcastable to
            `(B, H, size, S)`. `start` and `size` are ints or int32 scalar tensors. A
            bias shared by all heads is assumed to be a mask, and is cast to the dtype
            of `query`.
        trained: Tensors that are passed to `row_bias` and get gradients, such as a
            table of relative positions. Nothing else in `row_bias` gets a gradient.
        scale: Factor of the scores before the bias is added. TensorFlow fuses scale and
            bias into the matrix product, so a `scale` costs less than scaling the
            queries beforehand. Scale float16 queries beforehand: their products may
            overflow at 65,504.

    Returns:
        `(B, T, H, K)` in the dtype of `query`. The softmax is computed in float32. For
        a query whose keys are all masked, the output is finite but meaningless.

    Example:
    >>> query = ops.zeros((1, 2, 1, 1))  # likes all keys the same
    >>> value = ops.reshape(ops.array([1.0, 3.0, 8.0]), (1, 3, 1, 1))
    >>> mask = ops.reshape(ops.array([0.0, 0.0, -1e4]), (1, 1, 1, 3))
    >>> outputs = scaled_dot_product_attention(
    ...     query, value, value, lambda start, size: mask
    ... )
    >>> ops.convert_to_numpy(outputs).ravel()
    array([2., 2.], dtype=float32)

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), equation 1
        - [Rabe & Staats, 2021](https://arxiv.org/abs/2112.05682), section 3 (in chunks)
    """
    if on_tensorflow():
        from transbeam.model.kernels.attention_tensorflow import attend

        return attend(query, key, value, row_bias, trained, scale)
    if keras.backend.backend() == "jax":
        return _attend_with_jax(query, key, value, row_bias, trained, scale)
    return plain_attention(query, key, value, row_bias, trained, scale)


def plain_attention(
    query: Any,
    key: Any,
    value: Any,
    row_bias: RowBias | None = None,
    trained: tuple[Any, ...] = (),
    scale: float = 1.0,
) -> Any:
    """Reference for `scaled_dot_product_attention`, computing all scores at once."""
    batch, length, heads, width = ops.shape(query)
    keys, key_heads = ops.shape(key)[1:3]
    rows = length * (heads // key_heads)  # the queries that share a key head
    query = ops.transpose(query, (0, 2, 1, 3))  # (B, H, T, K)
    query = ops.reshape(query, (batch, key_heads, rows, width))
    scores = ops.matmul(query, ops.transpose(key, (0, 2, 3, 1)))  # (B, G, rows, S)
    scores = ops.cast(scores, "float32") * scale
    scores = ops.reshape(scores, (batch, heads, length, keys))
    if row_bias is not None:
        scores = scores + row_bias(0, length, *trained)
    probabilities = ops.cast(ops.softmax(scores, axis=-1), query.dtype)
    probabilities = ops.reshape(probabilities, (batch, key_heads, rows, keys))
    outputs = ops.matmul(probabilities, ops.transpose(value, (0, 2, 1, 3)))
    outputs = ops.reshape(outputs, (batch, heads, length, width))
    return ops.transpose(outputs, (0, 2, 1, 3))


def _attend_with_jax(query, key, value, row_bias, trained, scale):
    if keras.backend.standardize_dtype(query.dtype) == "float16":
        # JAX's own attention needs a matrix product that CPUs do not support.
        return plain_attention(query, key, value, row_bias, trained, scale)
    bias = None if row_bias is None else row_bias(0, query.shape[1], *trained)
    # Keras rounds the bias to the dtype of the query, which is harmless for a mask, but
    # not for position biases.
    if bias is not None and bias.shape[1] > 1 and query.dtype != bias.dtype:
        return plain_attention(query, key, value, row_bias, trained, scale)
    return ops.dot_product_attention(query, key, value, bias=bias, scale=scale)
