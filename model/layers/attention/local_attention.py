"""Local attention: blocks of queries attend to a window, and to some distant keys.

Shapes are those of `transbeam.model.layers.attention.blockwise`, and `S` distant keys
of a block.
"""

from typing import Any, NamedTuple

import numpy as np
from keras import ops

from transbeam.model.kernels.blockwise_map import in_groups
from transbeam.model.layers.attention.attended_keys import BlockKeys
from transbeam.model.layers.attention.blockwise import (
    block_starts,
    by_group,
    by_head,
    count_blocks,
    cut_heads,
    cut_ids,
    cut_queries,
    join_queries,
    rows_at,
    window_mean,
    window_scores,
    windows,
)
from transbeam.model.layers.attention.document_masks import DocumentMasks, flat_index
from transbeam.model.layers.masks import masked_score, softmax


class LocalWindow(NamedTuple):
    """The blocks of keys that a block of queries is multiplied with.

    Attributes:
        size: `b`.
        before: Number of key blocks before the query block.
        after: Number of key blocks after the query block.
    """

    size: int
    before: int
    after: int

    @property
    def width(self) -> int:
        """`W`."""
        return self.before + 1 + self.after

    def around(self, ids):
        """Gathers a per-token integer for each window: `(B, T)` to `(N, B, 1, W b)`."""
        columns = cut_ids(ids, *self)
        return ops.expand_dims(windows(columns, self.width, axis=-1), 2)

    def visible(self, documents: DocumentMasks):
        """Marks real columns of the query's document: bool `(N, B, 1|b, W b)`.

        The third axis has length 1 if all queries of a row have the same mask.
        """
        queries = ops.expand_dims(cut_ids(documents.ids, self.size), 3)
        return documents.visible(self.around(documents.ids), queries)

    def ahead(self) -> np.ndarray:
        """Computes key position minus query position in a window: int32 `(b, W b)`.

        Example:
        >>> LocalWindow(2, before=1, after=0).ahead()
        array([[-2, -1,  0,  1],
               [-3, -2, -1,  0]], dtype=int32)
        """
        first, last = -self.before * self.size, (self.after + 1) * self.size
        columns = np.arange(first, last, dtype="int32")
        return columns - np.arange(self.size, dtype="int32")[:, np.newaxis]


class DistantKeys(NamedTuple):
    """Distant keys: keys outside of the windows, gathered by index.

    Attributes:
        index: int32 `(N, B, H, S)`, the keys' indices in the row.
        allowed: bool, broadcastable to `(N, B, H, b, S)`.
    """

    index: Any
    allowed: Any


def visible_window(reach: tuple[int, int], size: int, length) -> LocalWindow:
    """The window that covers the given number of tokens before and after a query.

    If the row is known to be short, the window is smaller.

    Example:
    >>> visible_window((7, 0), size=4, length=100)
    LocalWindow(size=4, before=2, after=0)
    >>> visible_window((7, 7), size=4, length=3)
    LocalWindow(size=4, before=1, after=1)
    """
    if isinstance(length, int):
        reach = (min(reach[0], length - 1), min(reach[1], length - 1))
    return LocalWindow(size, *(count_blocks(tokens, size) for tokens in reach))


def attend_to_window(
    attention, heads, window, allowed, counted, bias_table=None, far=None, training=None
):
    """Computes attention to the keys of windows and to distant keys, in one softmax.

    If the probabilities are neither recorded nor dropped out, they are computed for
    some blocks at a time, and recomputed for the gradient.

    Args:
        attention: The `Attention` layer, for its score bias, `probabilities` and
            dropout.
        heads: query `(B, T, H, K)`, key and value `(B, T, G, K)`.
        window: The `LocalWindow`.
        allowed: bool, broadcastable to `(N, B, b, W b)`.
        counted: Returns the queries whose outputs here have a meaning: bool `(B, T)`.
        bias_table: The score bias's table, if it has one.
        far: `DistantKeys` or None.
        training: If true, dropout is active.

    Returns:
        `(B, T, H, K)`.
    """
    query, key, value = heads
    length, groups = ops.shape(query)[1], key.shape[2]
    rows = [cut_queries(query, groups, window.size)]  # (N, B, G, R b, K)
    columns = [cut_heads(key, *window), cut_heads(value, *window)]
    marks, num_keys = [allowed], window.width * window.size
    if far is not None:
        rows += [look_up_heads(key, far.index), look_up_heads(value, far.index)]
        ahead = ops.expand_dims(far.index, 3) - block_starts(rows[0], window.size)
        marks += [far.allowed, ahead]  # (N, B, H, 1, S)
        num_keys += far.index.shape[3]
    trained = [] if bias_table is None else [bias_table]

    in_the_open = attention.probabilities.watched or (training and attention.dropout)

    def keys():
        return _attended_keys(window, allowed, counted(), far)

    def attend(rows, columns, marks, trained):
        scores = _window_scores(attention, window, rows, columns, marks, trained)
        if far is not None:
            far_scores = _far_scores(attention, length, rows, marks, trained)
            scores = ops.concatenate([scores, far_scores], axis=-1)
        probabilities = softmax(scores)
        if in_the_open:
            probabilities = attention.record_and_drop(probabilities, keys, training)
        probabilities = ops.cast(probabilities, query.dtype)
        return _means(window, probabilities, rows, columns)

    if in_the_open:
        outputs = attend(rows, columns, marks, trained)
    else:
        work = ops.shape(query)[0] * query.shape[2] * window.size * num_keys
        outputs = in_groups(attend, rows, columns, marks, trained, work)
    return join_queries(outputs, length, window.size)


def _attended_keys(window, allowed, counted, far) -> BlockKeys:
    """Describes the keys of all blocks: those of windows, then the distant ones."""
    length = ops.shape(counted)[1]
    counted = cut_ids(ops.cast(counted, "int32"), window.size)  # (N, B, b)
    starts = block_starts(counted, window.size)
    query_index = starts + ops.arange(window.size, dtype="int32")
    query_index = query_index + ops.zeros_like(counted)
    columns = ops.arange(window.width * window.size, dtype="int32")
    key_index = starts - window.before * window.size + columns  # (N, 1, W b)
    key_index = ops.expand_dims(key_index, 2)  # (N, 1, 1, W b)
    visible = ops.expand_dims(allowed, -3)
    if far is not None:
        blocks, batch, heads, _ = ops.shape(far.index)
        shape = (blocks, batch, heads, window.size)
        near = (*shape, window.width * window.size)
        distant = (*shape, ops.shape(far.index)[3])
        visible = [ops.broadcast_to(visible, near)]
        visible += [ops.broadcast_to(far.allowed, distant)]
        visible = ops.concatenate(visible, axis=-1)
        key_index = ops.broadcast_to(key_index, (*shape[:3], near[-1]))
        key_index = ops.concatenate([key_index, far.index], axis=-1)
    counted = ops.expand_dims(ops.expand_dims(ops.not_equal(counted, 0), 2), 4)
    visible = ops.logical_and(visible, counted)
    return BlockKeys(visible, query_index, key_index, length)


def _window_scores(attention, window, rows, columns, marks, trained):
    """Computes the scores of window keys: float32 `(N, B, H, b, W b)`."""
    scores = window_scores(rows[0], columns[0], window.width)
    scores = mask_scores(by_head(scores, window.size), ops.expand_dims(marks[0], -3))
    if attention.score_bias is None:
        return scores
    # The same for all blocks, since only differences of positions matter.
    keys = ops.arange(window.width * window.size, dtype="int32")
    own = ops.arange(window.size, dtype="int32") + window.before * window.size
    return scores + attention.score_bias(own, keys, *trained)  # (H, b, W b)


def _far_scores(attention, length, rows, marks, trained):
    """Computes the scores of distant keys: float32 `(N, B, H, b, S)`."""
    (queries, keys, _), (_, allowed, ahead) = rows, marks
    size = queries.shape[3] * queries.shape[2] // keys.shape[2]
    scores = ops.matmul(by_head(queries, size), ops.swapaxes(keys, -1, -2))
    scores = mask_scores(scores, allowed)
    if attention.score_bias is None:
        return scores
    ahead = ahead - ops.expand_dims(ops.arange(size, dtype="int32"), 1)
    return scores + pair_bias(attention, ahead, length, *trained)


def _means(window, probabilities, rows, columns):
    """Computes the weighted means of values: `(N, B, G, R b, K)`."""
    groups, near = rows[0].shape[2], window.width * window.size
    means = window_mean(
        by_group(probabilities[..., :near], groups), columns[1], window.width
    )
    if len(rows) == 1:
        return means
    far = ops.matmul(probabilities[..., near:], rows[2])
    return means + by_group(far, groups)


def look_up_heads(x, index):
    """Gathers each head's keys or values by their index in the row.

    Args:
        x: `(B, T, G, K)`.
        index: int32 `(N, B, H, S)`.

    Returns:
        `(N, B, H, S, K)`.
    """
    batch, length, groups, width = ops.shape(x)
    num_heads = index.shape[2]
    group = ops.arange(num_heads, dtype="int32") // (num_heads // groups)
    index = flat_index(index, batch, length) * groups
    index = index + ops.expand_dims(group, -1)  # (N, B, H, S)
    return rows_at(ops.reshape(x, (batch * length * groups, width)), index)


def pair_bias(attention, ahead, length, bias_table=None):
    """Computes the score bias of each pair, one per head.

    The bias is computed once for each distance, and gathered for the pairs.

    Args:
        attention: The `Attention` layer.
        ahead: int32 `(N, B, 1|H, Q, S)`, key position minus query position.
        length: `T`; distances of `T` or more are clipped, as they occur only at masked
            keys or at queries after the row's end.
        bias_table: The score bias's table, if it has one.

    Returns:
        float32 `(N, B, H, Q, S)`.
    """
    all_ahead = ops.arange(1 - length, length, dtype="int32")
    zero = ops.zeros((1,), dtype="int32")
    biases = attention.score_bias(zero, all_ahead, bias_table)  # (H, 1, 2 T - 1)
    heads = ops.arange(attention.num_heads, dtype="int32") * (2 * length - 1)
    row = ops.clip(ahead + length - 1, 0, 2 * length - 2)
    row = row + ops.reshape(heads, (-1, 1, 1))
    return ops.take(ops.reshape(biases, (-1,)), row, axis=0)


def mask_scores(scores, allowed):
    """Adds a large negative bias to scores of masked pairs; returns float32."""
    return ops.cast(scores, "float32") + ops.where(allowed, 0.0, masked_score())
