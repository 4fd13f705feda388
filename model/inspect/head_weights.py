"""Attention weights of the heads of one layer, in one of the kinds' arrangements.

Statistics are sums of a head's weights over the keys. Both classes have the same
methods, so that a statistic is written once for all kinds of attention. Weights of
padding, and of keys that a query may not attend to, are zero.

Shapes: `B` batch, `H` heads, `T` queries, `S` keys, `C` classes of tokens; `(..., H, Q,
S)` are the weights: `(B, H, T, S)` in rows, `(N, B, H, Q, S)` in blocks.
"""

from typing import Any

from keras import ops

from transbeam.model.layers.attention.attended_keys import (
    AttendedKeys,
    BlockKeys,
    ProjectedKeys,
    RowKeys,
)
from transbeam.model.layers.attention.document_masks import flat_index, look_up


class RowWeights:
    """Weights `(B, H, T, S)`.

    Args:
        probabilities: float32 `(B, H, T, S)`.
        keys: Their keys.

    Attributes:
        visible: float32, broadcastable to `values`: 1 for the keys that a query may
            attend to, 0 for all keys of padding.
        values: The weights.
    """

    def __init__(self, probabilities: Any, keys: RowKeys | ProjectedKeys):
        self.visible = ops.cast(keys.visible, "float32")
        self.values = probabilities * self.visible

    def at_keys(self, x):
        """Arranges one vector for each token of the text as the keys: `(B, 1, S, C)`.

        Args:
            x: `(B, S, C)`.
        """
        return ops.expand_dims(x, 1)

    def sum_by_query(self, x):
        """Returns sums for each query of the text: `(..., H, Q, F)` to `(B, H, T, F)`.

        Args:
            x: Sums over the keys of each query that are in one block.
        """
        return x

    def max_by_query(self, x):
        """Returns maxima for each query of the text, as `sum_by_query` does sums."""
        return x

    def sum_by_offset(self, reach: int, distant: int):
        """Computes a head's weight by the key's position relative to the query's.

        Args:
            reach: Number of offsets on each side of the query.
            distant: Largest distance that is not distant.

        Returns:
            float32 `(B, H, 2 + 2 reach + 1)`, sums over queries and keys: the weighted
            distance, the weight of keys further away than `distant`, and the weight at
            each offset from `-reach` to `reach`; key minus query.
        """
        batch, heads, length, keys = ops.shape(self.values)
        index = ops.arange(keys, dtype="int32")
        ahead = index - ops.expand_dims(ops.arange(length, dtype="int32"), 1)  # (T, S)
        ahead = ops.reshape(ahead, (length * keys, 1))
        distance = ops.abs(ahead)
        offsets = ops.arange(-reach, reach + 1, dtype="int32")
        columns = [distance, distance > distant, ops.equal(ahead, offsets)]
        columns = [ops.cast(column, "float32") for column in columns]
        # One product reads the weights once for all sums.
        values = ops.reshape(self.values, (batch * heads, length * keys))
        sums = ops.matmul(values, ops.concatenate(columns, axis=1))
        return ops.reshape(sums, (batch, heads, 2 * reach + 3))

    def sum_by_pattern(self, patterns):
        """Computes a head's weight at some pairs of tokens.

        Args:
            patterns: float32 `(B, P, T, S)`, such as 0 and 1 for each pair.

        Returns:
            float32 `(B, H, P)`, sums over the pairs.
        """
        batch, heads, length, keys = ops.shape(self.values)
        values = ops.reshape(self.values, (batch, heads, length * keys))
        patterns = ops.reshape(patterns, (batch, -1, length * keys))
        return ops.matmul(values, ops.swapaxes(patterns, 1, 2))


class BlockWeights:
    """Weights `(N, B, H, Q, S)`.

    Args:
        probabilities: float32 `(N, B, H, Q, S)`.
        keys: Their keys.

    The attributes and the methods are those of `RowWeights`.
    """

    def __init__(self, probabilities: Any, keys: BlockKeys):
        self.visible = ops.cast(keys.visible, "float32")
        self.values = probabilities * self.visible
        self._keys = keys
        blocks, batch, _, _, size = ops.shape(probabilities)
        heads = keys.key_index.shape[2]  # 1 or H
        self._key_index = ops.broadcast_to(keys.key_index, (blocks, batch, heads, size))

    def at_keys(self, x):
        index = self._key_index
        blocks, batch, heads, size = ops.shape(index)
        found = look_up(x, ops.reshape(index, (blocks, batch, heads * size)))
        return ops.reshape(found, (blocks, batch, heads, size, ops.shape(x)[2]))

    def sum_by_query(self, x):
        return self._reduce_by_query(ops.segment_sum, x)

    def max_by_query(self, x):
        # The maximum of no block is the lowest number.
        return ops.maximum(self._reduce_by_query(ops.segment_max, x), 0.0)

    def _reduce_by_query(self, reduce, x):
        _, batch, heads, _, number = ops.shape(x)
        length = self._keys.length
        x = ops.transpose(x, (0, 1, 3, 2, 4))  # (N, B, Q, H, F)
        x = ops.reshape(x, (-1, heads, number))
        tokens = flat_index(self._keys.query_index, batch, length)
        x = reduce(x, ops.reshape(tokens, (-1,)), batch * length)
        x = ops.reshape(x, (batch, length, heads, number))
        return ops.transpose(x, (0, 2, 1, 3))

    def sum_by_offset(self, reach: int, distant: int):
        _, batch, heads, _, _ = ops.shape(self.values)
        query_index = ops.expand_dims(ops.expand_dims(self._keys.query_index, 2), 4)
        ahead = ops.expand_dims(self._key_index, 3) - query_index  # (N, B, 1|H, Q, S)
        distance = ops.abs(ahead)
        sums = [
            ops.sum(self.values * ops.cast(x, "float32"), axis=(0, 3, 4))
            for x in (distance, distance > distant)
        ]
        # Each text and head has a segment for each offset, and one for all others.
        number = 2 * reach + 2
        near = ops.where(distance > reach, number - 1, ahead + reach)
        texts = ops.reshape(ops.arange(batch, dtype="int32"), (batch, 1, 1, 1))
        text_heads = texts * heads
        text_heads += ops.reshape(ops.arange(heads, dtype="int32"), (heads, 1, 1))
        segments = ops.reshape(near + text_heads * number, (-1,))
        values = ops.reshape(self.values, (-1,))
        by_offset = ops.segment_sum(values, segments, batch * heads * number)
        by_offset = ops.reshape(by_offset, (batch, heads, number))[:, :, :-1]
        return ops.concatenate([ops.stack(sums, axis=-1), by_offset], axis=-1)

    def sum_by_pattern(self, patterns):
        batch, number, length, keys = ops.shape(patterns)
        patterns = ops.reshape(patterns, (batch, number, length * keys))
        patterns = ops.transpose(patterns, (0, 2, 1))
        queries = ops.expand_dims(ops.expand_dims(self._keys.query_index, 2), 4)
        pairs = ops.clip(queries, 0, length - 1) * keys
        pairs = pairs + ops.clip(ops.expand_dims(self._key_index, 3), 0, keys - 1)
        blocks, _, heads, size, window = ops.shape(pairs)
        index = ops.reshape(pairs, (blocks, batch, heads * size * window))
        found = look_up(patterns, index)
        found = ops.reshape(found, (blocks, batch, heads, size, window, number))
        weights = ops.expand_dims(self.values, 5)
        return ops.sum(weights * found, axis=(0, 3, 4))


HeadWeights = RowWeights | BlockWeights


def arrange_weights(probabilities: Any, keys: AttendedKeys) -> HeadWeights:
    """Arranges probabilities by the description of their keys.

    Args:
        probabilities: float32, as the layer `probabilities` is called.
        keys: Their keys.

    Example:
    >>> keys = RowKeys(ops.array([[[[True, True], [False, False]]]]))
    >>> weights = arrange_weights(ops.ones((1, 1, 2, 2)) / 2, keys)
    >>> ops.convert_to_numpy(weights.sum_by_offset(reach=1, distant=1))
    array([[[0.5, 0. , 0. , 0.5, 0.5]]], dtype=float32)
    """
    if isinstance(keys, BlockKeys):
        return BlockWeights(probabilities, keys)
    return RowWeights(probabilities, keys)
