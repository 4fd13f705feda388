"""Sliding window attention with global tokens (Longformer)."""

import keras
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.base.tensor_checks import check_rank
from transbeam.model.layers.attention.blockwise import block_starts
from transbeam.model.layers.attention.document_masks import (
    DocumentMasks,
    look_up,
    read_documents,
)
from transbeam.model.layers.attention.global_token_attention import (
    GlobalQueries,
    attend_from_global,
)
from transbeam.model.layers.attention.local_attention import (
    DistantKeys,
    LocalWindow,
    attend_to_window,
    visible_window,
)
from transbeam.model.layers.attention.sliding_window import SlidingWindowAttention
from transbeam.model.layers.sequence_info import check_sequence_info


@keras.saving.register_keras_serializable(package="transbeam")
class GlobalWindowAttention(SlidingWindowAttention):
    """Sliding window attention; each document's first tokens are global (Longformer).

    A global token attends to its whole document, with separate projections, and all
    tokens of the document attend to it. So information about the whole text, such as
    its class, need not propagate from window to window.

    If `sequence_info` has a `global_mask`, only those of the first `num_global_tokens`
    tokens are global that it marks: `num_global_tokens` is then the most there can be,
    and documents have numbers of their own, such as the length of a question. Shapes
    and cost are those of the most.

    A block of queries overlaps at most one document that starts before its window, so a
    block has few distant global tokens, however many documents a row has.

    Shapes: as in `Attention`, and `b` tokens of a block.

    Args:
        window_size: See `SlidingWindowAttention`.
        num_global_tokens: int. Number of global tokens at the start of a document, or
            the largest number with a `global_mask`.

    The other arguments, the call arguments and the errors are those of `Attention`.
    The layer `probabilities` is called twice: with `(blocks, B, H, b, keys)` for all
    queries, where `keys` are those of the window and distant global ones, and the rows
    of global tokens are ignored; then with `(blocks, B, H, global queries, b)` for
    global tokens, where each query's probabilities sum to one over all blocks.

    Example:
    >>> attention = GlobalWindowAttention(hidden_dim=4, num_heads=2, window_size=2)
    >>> sequence_info = {"padding_mask": ops.ones((1, 5), dtype="int32")}
    >>> tuple(attention(ops.ones((1, 5, 4)), sequence_info).shape)
    (1, 5, 4)

    References:
        - [Beltagy et al., 2020](https://arxiv.org/abs/2004.05150), section 3.1; global
          tokens of each task: "Global Attention", and the question's in section 5
    """

    not_causal = "global tokens see what comes after them"

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        *,
        window_size: int = 512,
        num_global_tokens: int = 1,
        **kwargs,
    ):
        super().__init__(hidden_dim, num_heads, window_size=window_size, **kwargs)
        if num_global_tokens < 1:
            raise ConfigError(
                f"{self.name}: num_global_tokens={num_global_tokens} must be at least 1"
            )
        self.num_global_tokens = num_global_tokens
        keys_dim = self.num_key_value_heads * self.head_dim
        self.global_query = self.projection(
            "global_query", self.num_heads * self.head_dim
        )
        self.global_key = self.projection("global_key", keys_dim)
        self.global_value = self.projection("global_value", keys_dim)

    def build(self, inputs_shape):
        super().build(inputs_shape)
        for layer in (self.global_query, self.global_key, self.global_value):
            layer.build((*inputs_shape[:-1], self.hidden_dim))

    def call(self, inputs, sequence_info, training=None):
        check_rank(inputs, 3, f"{self.name}: inputs", "(batch, length, hidden_dim)")
        check_sequence_info(sequence_info, inputs, self.name)
        documents = read_documents(sequence_info, ops.shape(inputs)[1], self.name)
        is_global = self._is_global(documents, sequence_info.get("global_mask"))
        seen = (inputs, sequence_info, documents, is_global, training)
        everyone, some = self._everyone(*seen), self._global_ones(*seen)
        chosen = ops.reshape(is_global, (*ops.shape(inputs)[:2], 1, 1))
        return self.join(ops.where(chosen, some, everyone))

    def _is_global(self, documents: DocumentMasks, global_mask=None):
        """Marks the global tokens: bool `(B, T)`."""
        first = documents.positions < self.num_global_tokens
        first = ops.logical_and(ops.not_equal(documents.ids, 0), first)
        if global_mask is None:
            return first
        return ops.logical_and(first, ops.not_equal(global_mask, 0))

    def _global_index(self, blocks: DocumentMasks):
        """The first tokens of the document in which a block starts: `(N, B, g)`."""
        numbers = ops.arange(self.num_global_tokens, dtype="int32")
        return blocks.starts[:, :, :1] + numbers

    def _everyone(self, inputs, sequence_info, documents, is_global, training):
        """Attention of all tokens to window and global tokens: `(B, T, H, K)`."""
        heads = self.project(inputs, sequence_info.get("position_ids"))
        before, after = self.reach
        # To the right, it must reach the global tokens of a document that starts in the
        # block.
        reach = (before, max(after, self.num_global_tokens - 1))
        window = visible_window(reach, self.block_size, ops.shape(inputs)[1])
        around = window.around(ops.cast(is_global, "int32"))
        near = ops.logical_or(self.within_reach(window), ops.not_equal(around, 0))
        allowed = ops.logical_and(window.visible(documents), near)
        far = self._far_keys(documents, is_global, window)
        bias_table = sequence_info.get("bias_table")

        def counted():
            real = ops.not_equal(documents.ids, 0)
            return ops.logical_and(real, ops.logical_not(is_global))

        return attend_to_window(
            self, heads, window, allowed, counted, bias_table, far, training
        )

    def _far_keys(
        self, documents: DocumentMasks, is_global, window: LocalWindow
    ) -> DistantKeys:
        """The global tokens before a block's window.

        The block's queries attend only to those global tokens before the window that
        belong to the document in which the block starts: any other document with tokens
        in the block starts inside the block.
        """
        blocks = documents.cut(window.size)
        index = self._global_index(blocks)
        keys = ops.where(look_up(is_global, index), documents.ids_at(index), 0)
        keys = ops.expand_dims(keys, 2)  # (N, B, 1, g)
        visible = documents.visible(keys, ops.expand_dims(blocks.ids, 3))
        first_column = block_starts(index, window.size) - window.before * window.size
        allowed = ops.logical_and(visible, ops.expand_dims(index < first_column, 2))
        index = ops.repeat(ops.expand_dims(index, 2), self.num_heads, axis=2)
        return DistantKeys(index, ops.expand_dims(allowed, 2))

    def _global_ones(self, inputs, sequence_info, documents, is_global, training):
        """Attention of global tokens to their whole document.

        Returns:
            `(B, T, H, K)`; only the rows of global tokens are meaningful.
        """
        positions = sequence_info.get("position_ids")
        key = self.rotate(self.split(self.global_key(inputs)), positions)
        value = self.split(self.global_value(inputs))
        blocks = documents.cut(self.block_size)
        index, ids = self._looking_on(documents, is_global, blocks)
        if documents.aligned:  # the same few for all blocks
            first = ops.arange(self.num_global_tokens, dtype="int32")
            first = ops.minimum(first, ops.shape(inputs)[1] - 1)
            query = self.global_query(ops.take(inputs, first, axis=1))  # (B, g, H K)
            query = self.rotate(self.split(query))
            query = ops.broadcast_to(query, (ops.shape(index)[0], *ops.shape(query)))
        else:
            query = self.split(self.global_query(inputs))
            query = look_up(self.rotate(query, positions), index)
        ids = ops.expand_dims(ids, 3)  # (N, B, Q, 1)
        visible = documents.visible(ops.expand_dims(blocks.ids, 2), ids)
        allowed = ops.logical_and(visible, ops.not_equal(ids, 0))
        scattered = GlobalQueries(self.scale(query), key, value, index, allowed)
        return attend_from_global(
            self, scattered, sequence_info.get("bias_table"), training
        )

    def _looking_on(self, documents: DocumentMasks, is_global, blocks: DocumentMasks):
        """Finds, for each block of keys, the global tokens that attend to its keys.

        Two sets of global tokens attend to a block: all those of the document in which
        the block starts, wherever they are in the row; and those of documents that
        start later in the block, if they are in the block or just after it.

        Returns:
            Two int32 arrays `(N, B, Q)`: the index of each token in the row, and the
            id of its document, 0 for no token and for one that is not global.
        """
        index = self._global_index(blocks)
        ids = ops.where(look_up(is_global, index), documents.ids_at(index), 0)
        if documents.aligned:
            return index, ids
        ids = ops.where(ops.equal(ids, blocks.ids[:, :, :1]), ids, 0)

        begin = block_starts(index, self.block_size)
        number = self.block_size + self.num_global_tokens - 1
        later = begin + ops.arange(number, dtype="int32")  # (N, 1, b + g - 1)
        later = later + ops.zeros_like(index[:, :, :1])
        counts = ops.logical_and(
            look_up(is_global, later),
            look_up(documents.starts, later) > begin,
        )
        later_ids = ops.where(counts, documents.ids_at(later), 0)
        return (
            ops.concatenate([index, later], axis=2),
            ops.concatenate([ids, later_ids], axis=2),
        )

    def make_cache(self, batch_size, length):
        raise NotImplementedError(f"{self.name}: only decoders have caches")

    def step(self, inputs, sequence_info, cache, index):
        raise NotImplementedError(f"{self.name}: only decoders take single steps")
