"""Attention of a few queries to all keys of their document, in packed rows too.

A query attends to keys in many blocks, and a block has keys of many documents. So each
block of keys is multiplied with the queries that attend to it, and the results of each
query are combined in a softmax over all blocks.

Shapes are those of `transbeam.model.layers.attention.blockwise`; `Q` queries attend to
a block.
"""

from typing import Any, NamedTuple

from keras import ops

from transbeam.model.layers.attention.attended_keys import BlockKeys
from transbeam.model.layers.attention.blockwise import block_starts, cut_heads, rows_at
from transbeam.model.layers.attention.document_masks import flat_index
from transbeam.model.layers.attention.local_attention import (
    mask_scores,
    pair_bias,
)

# Below all scores.
LOWEST = -1e30


class GlobalQueries(NamedTuple):
    """The queries that attend to each block of keys.

    Attributes:
        query: float `(N, B, Q, H, K)`, already scaled.
        key: float `(B, T, G, K)`.
        value: float `(B, T, G, K)`.
        index: int32 `(N, B, Q)`, the queries' index in the row. A query that is listed
            twice for a block may attend to each key of the block only once.
        allowed: bool `(N, B, Q, b)`, the keys of the block to which each query attends.
    """

    query: Any
    key: Any
    value: Any
    index: Any
    allowed: Any


def attend_from_global(attention, scattered, bias_table=None, training=None):
    """Computes the attention of global queries, at any positions in the row.

    Args:
        attention: The `Attention` layer, for its score bias, `probabilities` and
            dropout.
        scattered: `GlobalQueries`.
        bias_table: The score bias's table, if it has one.
        training: If true, dropout is active.

    Returns:
        `(B, T, H, K)`: each query's result at its index, zeros elsewhere.
    """
    query, key, value, index, allowed = scattered
    batch, length, groups, width = ops.shape(key)
    blocks, _, queries, heads, _ = ops.shape(query)
    size = allowed.shape[-1]
    by_group = (blocks, batch, groups, heads // groups * queries)
    rows = ops.reshape(ops.transpose(query, (0, 1, 3, 2, 4)), (*by_group, width))
    keys = ops.swapaxes(cut_heads(key, size), -1, -2)  # (N, B, G, K, b)
    scores = ops.matmul(rows, keys)
    scores = ops.reshape(scores, (blocks, batch, heads, queries, size))
    scores = mask_scores(scores, ops.expand_dims(allowed, 2))
    own = block_starts(scores, size) + ops.arange(size, dtype="int32")
    if attention.score_bias is not None:
        ahead = own - ops.reshape(index, (blocks, batch, 1, queries, 1))
        scores = scores + pair_bias(attention, ahead, length, bias_table)

    def attended():
        key_index = ops.squeeze(own, 3)  # (N, 1, 1, b)
        return BlockKeys(ops.expand_dims(allowed, 2), index, key_index, length)

    tokens = flat_index(index, batch, length)  # (N, B, Q)
    probabilities = _softmax_by_token(scores, tokens, batch * length)
    probabilities = attention.record_and_drop(probabilities, attended, training)
    probabilities = ops.reshape(probabilities, (*by_group, size))
    outputs = ops.matmul(probabilities, cut_heads(value, size))
    outputs = ops.reshape(outputs, (blocks, batch, heads, queries, width))
    outputs = ops.transpose(outputs, (0, 1, 3, 2, 4))  # (N, B, Q, H, K)
    outputs = _add_up(outputs, tokens, batch * length)
    return ops.reshape(outputs, (batch, length, heads, width))


def _softmax_by_token(scores, tokens, num_tokens):
    """Computes the softmax of each query's scores over all blocks it attends to.

    Args:
        scores: float32 `(N, B, H, Q, b)`.
        tokens: int32 `(N, B, Q)`, the index of each query's token among all tokens of
            the batch.
        num_tokens: Number of tokens.

    Returns:
        As `scores`.
    """

    def of_each_query(per_token):  # (tokens, H) to (N, B, H, Q, 1)
        per_query = ops.swapaxes(rows_at(per_token, tokens), -1, -2)
        return ops.expand_dims(per_query, -1)

    ids = ops.reshape(tokens, (-1,))
    # With an initial value, for an empty batch.
    peaks = ops.max(scores, axis=-1, initial=LOWEST)
    peaks = ops.swapaxes(peaks, -1, -2)  # (N, B, Q, H)
    peaks = _one_by_one(peaks)
    # The softmax is invariant to a common shift, which needs no gradient.
    peaks = ops.stop_gradient(ops.segment_max(peaks, ids, num_tokens))
    scores = ops.exp(scores - of_each_query(peaks))
    totals = ops.swapaxes(ops.sum(scores, axis=-1), -1, -2)
    return scores / of_each_query(_add_up(totals, tokens, num_tokens))


def _add_up(x, tokens, num_tokens):
    """Sums the entries of the same token: `(N, B, Q, ...)` to `(tokens, ...)`."""
    return ops.segment_sum(_one_by_one(x), ops.reshape(tokens, (-1,)), num_tokens)


def _one_by_one(x):
    """Flattens the queries: `(N, B, Q, ...)` to `(N B Q, ...)`."""
    blocks, batch, queries, *rest = ops.shape(x)
    return ops.reshape(x, (blocks * batch * queries, *rest))
