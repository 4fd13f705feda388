"""Full attention: each token attends to all tokens of its document."""

import keras
from keras import ops

from transbeam.model.kernels.attention import scaled_dot_product_attention
from transbeam.model.layers.attention.attended_keys import RowKeys
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.attention.kv_cache import (
    attend_to_cache,
    empty_cache,
    extend_cache,
)
from transbeam.model.layers.masks import attention_mask, mask_bias, softmax
from transbeam.model.layers.sequence_info import real_tokens


@keras.saving.register_keras_serializable(package="transbeam")
class MultiHeadAttention(Attention):
    """Full attention: computation and memory are quadratic in the length.

    If the layer `probabilities` is not being recorded and dropout is inactive, the
    fused path runs, which never stores the `T x T` probabilities and has the same
    outputs.

    Args, call arguments and errors are those of `Attention`.

    Example:
    >>> attention = MultiHeadAttention(hidden_dim=4, num_heads=2)
    >>> sequence_info = {"padding_mask": ops.ones((1, 3), dtype="int32")}
    >>> tuple(attention(ops.ones((1, 3, 4)), sequence_info).shape)
    (1, 3, 4)

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), equation 1
        - [Rabe & Staats, 2021](https://arxiv.org/abs/2112.05682), section 3 (in chunks)
    """

    def scale(self, query):
        """Returns queries unscaled: TensorFlow fuses the scaling into the scores."""
        return query

    def attend(self, query, key, value, sequence_info, training=None):
        num_keys = ops.shape(key)[1]

        def row_mask(start, size):
            return attention_mask(
                sequence_info, causal=self.causal, start=start, size=size
            )

        def row_bias(start, size, *tables):
            bias = mask_bias(row_mask(start, size))  # (B, 1, 1|size, S)
            if self.score_bias is not None:
                bias = bias + self._position_bias(start, size, num_keys, tables)
            return bias

        keys = row_keys(sequence_info, row_mask)
        tables = _tables(sequence_info)
        return self._attend(query, key, value, row_bias, keys, tables, training)

    def _attend(self, query, key, value, row_bias, keys, tables=(), training=None):
        """Runs the fused path unless probabilities are recorded or dropped out."""
        scale = self.score_scale
        if self.compute_dtype == "float16":
            # float16 overflows at 65,504, which an unscaled score may exceed.
            query, scale = query * scale, 1.0
        dropping = bool(training) and self.dropout > 0
        if not dropping and not self.probabilities.watched:
            return scaled_dot_product_attention(
                query, key, value, row_bias, tables, scale
            )
        scores = self._scores(query, key) * scale
        scores = scores + row_bias(0, ops.shape(query)[1], *tables)
        return self._attend_in_the_open(scores, value, keys, training)

    def _scores(self, query, key):
        """Computes scores of all queries and keys: float32 `(B, H, T, S)`."""
        batch, length, heads, width = ops.shape(query)
        groups, shared = key.shape[2], heads // key.shape[2]
        query = ops.transpose(query, (0, 2, 1, 3))  # (B, H, T, K)
        query = ops.reshape(query, (batch, groups, shared * length, width))
        key = ops.transpose(key, (0, 2, 3, 1))  # (B, G, K, S)
        scores = ops.cast(ops.matmul(query, key), "float32")  # (B, G, H/G T, S)
        return ops.reshape(scores, (batch, heads, length, ops.shape(key)[-1]))

    def _attend_in_the_open(self, scores, value, keys, training):
        """Computes attention without fusion; its probabilities can be recorded."""
        batch, heads, length, num_keys = ops.shape(scores)
        groups, width = value.shape[2:]
        value = ops.transpose(value, (0, 2, 1, 3))  # (B, G, S, K)
        probabilities = self.record_and_drop(softmax(scores), keys, training)
        probabilities = ops.reshape(  # from (B, H, T, S)
            probabilities, (batch, groups, heads // groups * length, num_keys)
        )
        outputs = ops.matmul(probabilities, value)  # (B, G, H/G T, K)
        outputs = ops.reshape(outputs, (batch, heads, length, width))
        return ops.transpose(outputs, (0, 2, 1, 3))

    def _position_bias(self, start, size, num_keys, tables):
        """Computes the score bias of some rows: `(H, size, S)`.

        The bias depends only on differences of positions, and the tokens of a document
        are contiguous, so indices in the row are used as positions.
        """
        assert self.score_bias is not None
        rows = start + ops.arange(size, dtype="int32")
        columns = ops.arange(num_keys, dtype="int32")
        return self.score_bias(rows, columns, *tables)

    def make_cache(self, batch_size, length):
        """Makes an empty cache for the keys and values of `length` tokens.

        Returns:
            dict with `key` and `value`, `(B, G, S, K)` in the compute dtype.
        """
        return empty_cache(self, batch_size, length)

    def step(self, inputs, sequence_info, cache, index):
        """Attends from new tokens to those in the cache and to each other.

        Args:
            inputs: float `(B, Q, D)`, the new tokens.
            sequence_info: `padding_mask` `(B, S)` of all slots of the cache, 1 for real
                tokens including the new ones; `position_ids` `(B, Q)` of the new
                tokens; and `bias_table`.
            cache: The cache of `make_cache`, whose first `index` slots are filled.
            index: int32 scalar, the number of tokens in the cache, the same for all
                rows.

        Returns:
            `(B, Q, D)`, and the cache with the new tokens in it.
        """
        query, key, value = self.project(inputs, sequence_info["position_ids"])
        cache = extend_cache(cache, key, value, index)
        length = ops.shape(inputs)[1]
        mask = attention_mask(
            sequence_info, causal=self.causal, start=index, size=length
        )
        bias = mask_bias(mask)
        if self.score_bias is not None:
            slots = ops.shape(cache["key"])[2]
            bias = bias + self._position_bias(
                index, length, slots, _tables(sequence_info)
            )
        outputs = attend_to_cache(query * self.score_scale, cache, bias)
        return self.join(outputs), cache


def row_keys(sequence_info, row_mask):
    """Returns a function that marks the keys that real queries may attend to."""

    def keys():
        real = real_tokens(sequence_info)  # (B, T)
        mask = row_mask(0, ops.shape(real)[1])  # (B, 1|T, S)
        visible = ops.logical_and(ops.expand_dims(real, 2), mask)
        return RowKeys(ops.expand_dims(visible, 1))

    return keys


def _tables(sequence_info):
    """The trained table of a score bias, if the bias has one."""
    return (sequence_info["bias_table"],) if "bias_table" in sequence_info else ()
