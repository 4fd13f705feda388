"""Sliding window attention."""

import keras
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.attention.document_masks import read_documents
from transbeam.model.layers.attention.kv_cache import (
    attend_to_cache,
    empty_cache,
    extend_cache,
)
from transbeam.model.layers.attention.local_attention import (
    LocalWindow,
    attend_to_window,
    visible_window,
)
from transbeam.model.layers.masks import mask_bias

# Small blocks waste little at the ends of a window; large ones multiply faster.
BLOCKS_IN_WINDOW = 8
SMALLEST_BLOCK = 32


@keras.saving.register_keras_serializable(package="transbeam")
class SlidingWindowAttention(Attention):
    """Attention to the nearest tokens only, linear in time and memory.

    In an encoder half of the window is on each side of a token; in a decoder the window
    ends at the token. The row is split into blocks of an eighth of the window, and a
    block of queries is multiplied with the nine blocks of keys that overlap its window:
    `1.125 window_size` scores per query. Each layer extends a token's receptive field
    by a window.

    Distances are measured along the row. The tokens of a document are contiguous in the
    row, so packing does not change the distances between them.

    Shapes: as in `Attention`.

    Args:
        window_size: int, even. In an encoder a token attends to itself and to
            `window_size / 2` tokens on each side; in a decoder to itself and to the
            `window_size - 1` tokens before it.

    The other arguments, the call arguments and the errors are those of `Attention`.
    The layer `probabilities` is called with `(blocks, B, H, queries, keys)`: the
    queries of a block and the keys of its window.

    Example:
    >>> attention = SlidingWindowAttention(hidden_dim=4, num_heads=2, window_size=2)
    >>> sequence_info = {"padding_mask": ops.ones((1, 5), dtype="int32")}
    >>> tuple(attention(ops.ones((1, 5, 4)), sequence_info).shape)
    (1, 5, 4)

    References:
        - [Beltagy et al., 2020](https://arxiv.org/abs/2004.05150), section 3.1
    """

    def __init__(
        self, hidden_dim: int, num_heads: int, *, window_size: int = 512, **kwargs
    ):
        super().__init__(hidden_dim, num_heads, **kwargs)
        if window_size < 2 or window_size % 2:
            raise ConfigError(
                f"{self.name}: window_size={window_size} must be even and at least 2; "
                "half of it lies on each side"
            )
        self.window_size = window_size
        self.block_size = max(window_size // BLOCKS_IN_WINDOW, SMALLEST_BLOCK)
        half = window_size // 2
        self.reach = (window_size - 1, 0) if self.causal else (half, half)

    def attend(self, query, key, value, sequence_info, training=None):
        length = ops.shape(query)[1]
        documents = read_documents(sequence_info, length, self.name)
        window = visible_window(self.reach, self.block_size, length)
        visible = window.visible(documents)  # (N, B, 1|b, W b)
        allowed = ops.logical_and(visible, self.within_reach(window))
        return attend_to_window(
            self,
            (query, key, value),
            window,
            allowed,
            lambda: ops.not_equal(documents.ids, 0),
            sequence_info.get("bias_table"),
            training=training,
        )

    def within_reach(self, window: LocalWindow):
        """Marks the columns of a window within reach of each query: `(b, W b)`."""
        before, after = self.reach
        ahead = window.ahead()
        return (-before <= ahead) & (ahead <= after)

    def make_cache(self, batch_size, length):
        """Makes an empty cache for the keys and values of `length` tokens.

        Returns:
            dict with `key` and `value`, `(B, G, S, K)` in the compute dtype.
        """
        return empty_cache(self, batch_size, length)

    def step(self, inputs, sequence_info, cache, index):
        """Attends from new tokens to those in the cache and to each other.

        Only the slots that the window reaches are read.

        Args:
            inputs: float `(B, Q, D)`, the new tokens.
            sequence_info: As in `MultiHeadAttention.step`.
            cache: The cache of `make_cache`, whose first `index` slots are filled.
            index: int32 scalar, the number of tokens in the cache, the same for all
                rows.

        Returns:
            `(B, Q, D)`, and the cache with the new tokens in it.
        """
        query, key, value = self.project(inputs, sequence_info["position_ids"])
        cache = extend_cache(cache, key, value, index)
        batch, length = ops.shape(inputs)[:2]
        smaller = min if isinstance(length, int) else ops.minimum
        read = smaller(self.reach[0] + length, ops.shape(cache["key"])[2])
        # If padding extends beyond the cache, as on phones, the last slots are read.
        last = ops.shape(cache["key"])[2] - read
        first = ops.minimum(ops.maximum(index - self.reach[0], 0), last)

        shape = (batch, self.num_key_value_heads, read, self.head_dim)
        near = {name: ops.slice(cache[name], (0, 0, first, 0), shape) for name in cache}
        rows = index + ops.arange(length, dtype="int32")
        columns = first + ops.arange(read, dtype="int32")
        behind = ops.expand_dims(rows, 1) - ops.expand_dims(columns, 0)  # (Q, S)
        seen = ops.logical_and(behind >= 0, behind <= self.reach[0])
        real = ops.slice(sequence_info["padding_mask"], (0, first), (batch, read))
        real = ops.expand_dims(ops.not_equal(real, 0), 1)  # (B, 1, S)
        bias = mask_bias(ops.logical_and(real, seen))
        if self.score_bias is not None:
            bias = bias + self.score_bias(
                rows, columns, sequence_info.get("bias_table")
            )
        return self.join(attend_to_cache(query, near, bias)), cache
