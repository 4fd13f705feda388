"""KV cache of an attention layer.

Shapes: `B` batch, `Q` new tokens, `S` slots, `H` query heads, `G` key-value heads, `K`
head width. The cache has the layout `(B, G, S, K)`, which the matrix products of a
decoding step use without a transpose.
"""

from keras import ops

from transbeam.model.kernels.cache_update import update_cache
from transbeam.model.layers.masks import softmax


def empty_cache(attention, batch_size, length):
    """Makes an empty cache for the keys and values of `length` tokens."""
    shape = (batch_size, attention.num_key_value_heads, length, attention.head_dim)
    return {
        name: ops.zeros(shape, attention.compute_dtype) for name in ("key", "value")
    }


def extend_cache(cache, key, value, index):
    """Writes new keys and values to the slots from `index` on.

    Args:
        cache: dict of `(B, G, S, K)` tensors.
        key: `(B, Q, G, K)`.
        value: `(B, Q, G, K)`.
        index: int32 scalar.

    Returns:
        The new cache; the old one must not be used again.
    """
    new = {"key": key, "value": value}
    return {
        name: update_cache(cache[name], ops.transpose(new[name], (0, 2, 1, 3)), index)
        for name in cache
    }


def attend_to_cache(query, cache, bias):
    """Computes the attention of a few queries to all slots.

    Args:
        query: `(B, Q, H, K)`, already scaled.
        cache: dict of `(B, G, S, K)` tensors.
        bias: float32, broadcastable to `(B, H, Q, S)`.

    Returns:
        `(B, Q, H, K)` in the dtype of `query`.
    """
    batch, length, heads, width = ops.shape(query)
    groups = cache["key"].shape[1]
    slots = ops.shape(cache["key"])[2]
    query = ops.transpose(query, (0, 2, 1, 3))  # (B, H, Q, K)
    query = ops.reshape(query, (batch, groups, heads // groups * length, width))
    scores = ops.einsum("bgqk,bgsk->bgqs", query, cache["key"])
    scores = ops.reshape(ops.cast(scores, "float32"), (batch, heads, length, slots))
    probabilities = ops.cast(softmax(scores + bias), query.dtype)
    probabilities = ops.reshape(
        probabilities, (batch, groups, heads // groups * length, slots)
    )
    outputs = ops.einsum("bgqs,bgsk->bgqk", probabilities, cache["value"])
    outputs = ops.reshape(outputs, (batch, heads, length, width))
    return ops.transpose(outputs, (0, 2, 1, 3))  # (B, Q, H, K)
