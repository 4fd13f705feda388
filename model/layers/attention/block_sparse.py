"""Block sparse attention (BigBird): neighboring, outermost and random blocks."""

import random

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.base.initializers import derive_seed
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.attention.blockwise import block_starts, cut_ids
from transbeam.model.layers.attention.document_masks import (
    DocumentMasks,
    document_max,
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

# A prime whose square plus a block number stays within int32.
PRIME = 32_749


@keras.saving.register_keras_serializable(package="transbeam")
class BlockSparseAttention(Attention):
    """Attention between blocks of tokens (BigBird's internal construction).

    A document is split into blocks from its first token on. A block attends to itself
    and its two neighbors, to the first and the last block of its document, and to some
    random blocks. The first and the last block attend to the whole document.

    All positions are relative to the document, so packing does not change the result.
    The computation, however, uses blocks of the row, which may not align with a
    document's blocks. In packed rows, where a document may start at any position, a
    block of the row overlaps two of the document's blocks: it is multiplied with five
    neighboring blocks instead of three, and with twice as many random blocks. A block
    of the row overlaps at most two documents that are longer than two blocks: the
    document that contains the first token of the row's block and the document that
    contains its last token. For these two documents, keys outside of the window of
    blocks are gathered by index.

    Shapes: as in `Attention`; `N` blocks of a row, `b` tokens of a block, `r` random
    blocks per block.

    Args:
        block_size: int. `b`.
        num_random_blocks: int. `r`. Random blocks are drawn once, for each head, from
            the seed, and depend on the number of blocks of the document. Blocks that a
            block already attends to are not drawn; fewer are drawn if too few remain.
        seed: int or None. With None a seed is drawn and stored in the config, so that
            the loaded layer has the same random blocks.

    The other arguments, the call arguments and the errors are those of `Attention`.
    The layer `probabilities` is called twice: for all queries, `(N, B, H, b, keys)`,
    where the rows of outermost blocks' queries are ignored; then for the queries of
    outermost blocks, `(N, B, H, queries, b)`, where each query's probabilities sum to
    one over all blocks.

    Example:
    >>> attention = BlockSparseAttention(hidden_dim=4, num_heads=2, block_size=2)
    >>> sequence_info = {"padding_mask": ops.ones((1, 15), dtype="int32")}
    >>> tuple(attention(ops.ones((1, 15, 4)), sequence_info).shape)
    (1, 15, 4)

    References:
        - [Zaheer et al., 2020](https://arxiv.org/abs/2007.14062), section 2 and
          appendix D
        - Carter & Wegman, 1979, Universal classes of hash functions: method for drawing
          blocks
    """

    not_causal = "the outermost blocks see what comes after them"

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        *,
        block_size: int = 64,
        num_random_blocks: int = 3,
        seed: int | None = None,
        **kwargs,
    ):
        seed = random.randrange(2**31) if seed is None else seed
        super().__init__(hidden_dim, num_heads, seed=seed, **kwargs)
        if block_size < 1 or num_random_blocks < 0:
            raise ConfigError(
                f"{self.name}: block_size={block_size} must be at least 1, and "
                f"num_random_blocks={num_random_blocks} at least 0"
            )
        self.block_size = block_size
        self.num_random_blocks = num_random_blocks
        # Each head and each of its draws has its own hash function x -> a x + c.
        generator = np.random.default_rng(derive_seed(seed, "random_blocks"))
        shape = (num_heads, num_random_blocks)
        self.factors = generator.integers(1, PRIME, shape, dtype="int32")
        self.shifts = generator.integers(0, PRIME, shape, dtype="int32")

    def attend(self, query, key, value, sequence_info, training=None):
        length, size = ops.shape(query)[1], self.block_size
        documents = read_documents(sequence_info, length, self.name)
        last = last_blocks(documents, size)  # (B, T)
        bias_table = sequence_info.get("bias_table")

        # In a short document all blocks are near to each other.
        number = documents.positions // size
        outermost = ops.logical_or(ops.equal(number, 0), ops.equal(number, last))
        outermost = ops.logical_and(outermost, last > 1)

        def counted():
            real = ops.not_equal(documents.ids, 0)
            return ops.logical_and(real, ops.logical_not(outermost))

        reach = size if documents.aligned else 2 * size - 1
        window = visible_window((reach, reach), size, length)
        inner = attend_to_window(
            self,
            (query, key, value),
            window,
            self._near(documents, last, window),
            counted,
            bias_table,
            self._far(documents, last, window),
            training,
        )
        scattered = self._looking_on(documents, last, query, key, value)
        outer = attend_from_global(self, scattered, bias_table, training)
        outermost = ops.reshape(outermost, (*ops.shape(query)[:2], 1, 1))
        return ops.where(outermost, outer, inner)

    def _near(self, documents, last, window: LocalWindow):
        """Marks keys of a window that are in a neighboring or an outermost block."""
        number = documents.positions // self.block_size
        keys, last_keys = window.around(number), window.around(last)
        queries = ops.expand_dims(self._cut(number), 3)  # (N, B, b, 1)
        near = ops.abs(queries - keys) <= 1
        outermost = ops.logical_or(ops.equal(keys, 0), ops.equal(keys, last_keys))
        return ops.logical_and(
            window.visible(documents), ops.logical_or(near, outermost)
        )

    def _far(self, documents, last, window: LocalWindow) -> DistantKeys:
        """Keys of random blocks, and of outermost blocks outside of the windows."""
        size = self.block_size
        blocks, last = documents.cut(size), self._cut(last)
        tokens = np.arange(size, dtype="int32")
        ids = ops.expand_dims(blocks.ids, 3)  # (N, B, b, 1)

        def visible(index):
            keys = ops.expand_dims(documents.ids_at(index), 2)
            return documents.visible(keys, ids)  # (N, B, b, S)

        # If a window does not reach the first block of a document, that is the document
        # in which the block starts; if it does not reach the last, in which it ends.
        first = blocks.starts[:, :, :1] + tokens
        final = blocks.starts[:, :, -1:] + last[:, :, -1:] * size + tokens
        begin = block_starts(first, size)
        behind = first < begin - window.before * size
        beyond = final >= begin + (window.after + 1) * size
        index = ops.concatenate([first, final], axis=2)
        outside = ops.expand_dims(ops.concatenate([behind, beyond], axis=2), 2)
        allowed = ops.expand_dims(ops.logical_and(visible(index), outside), 2)
        index = ops.repeat(ops.expand_dims(index, 2), self.num_heads, axis=2)
        if self.num_random_blocks == 0:
            return DistantKeys(index, allowed)
        drawn = self._drawn(documents, blocks, last)
        allowed = ops.broadcast_to(allowed, (*ops.shape(index)[:3], size, 2 * size))
        return DistantKeys(
            ops.concatenate([index, drawn.index], axis=3),
            ops.concatenate([allowed, drawn.allowed], axis=4),
        )

    def _drawn(self, documents, blocks: DocumentMasks, last) -> DistantKeys:
        """The random blocks of the document in which a block of the row starts.

        A document that starts later in the block of the row has only its first block
        there, and first blocks have no random blocks.
        """
        rows, batch, size = ops.shape(blocks.ids)
        all_blocks = rows * batch  # TFLite's flags have four axes at most
        heads, keys = self.num_heads, self.num_random_blocks * size
        tokens = ops.arange(size, dtype="int32")
        ids = ops.reshape(blocks.ids, (all_blocks, 1, size, 1))
        start = ops.reshape(blocks.starts[:, :, 0], (all_blocks, 1, 1, 1))
        number = ops.reshape(blocks.positions // size, (all_blocks, 1, size, 1))
        count = ops.reshape(last[:, :, 0] + 1, (all_blocks, 1, 1))

        index, allowed = [], []
        for more in range(1 if documents.aligned else 2):
            drawing = number[:, :, 0] + more
            drawn = ops.expand_dims(self._draw(drawing, count), 3)  # (N B, H, r, 1)
            key = ops.where(drawn < 0, -1, start + drawn * size + tokens)
            key = ops.reshape(key, (rows, batch, heads * keys))
            key_ids = ops.reshape(documents.ids_at(key), (all_blocks, heads, 1, keys))
            draws = ops.equal(number, ops.expand_dims(drawing, 3))
            seen = ops.logical_and(documents.visible(key_ids, ids), draws)
            index.append(ops.reshape(key, (rows, batch, heads, keys)))
            allowed.append(ops.reshape(seen, (rows, batch, heads, size, keys)))
        return DistantKeys(
            ops.concatenate(index, axis=3), ops.concatenate(allowed, axis=4)
        )

    def _draw(self, number, count):
        """Draws random blocks for a block that is not an outermost one.

        The candidates are the blocks between the outermost ones, without the block's
        neighbors, in circular order starting after the neighbors. Each draw has its own
        section of the circle, so that no block is drawn twice.

        Args:
            number: int32 `(N B, 1, 1)`, the index of the block in its document.
            count: int32 `(N B, 1, 1)`, the number of blocks of the document.

        Returns:
            int32 `(N B, H, r)`, the indices of the drawn blocks; -1 for none.
        """
        at_first, at_last = ops.equal(number, 1), ops.equal(number, count - 2)
        others = count - 5 + ops.cast(at_first, "int32") + ops.cast(at_last, "int32")
        others = ops.maximum(others, 0)
        draws = np.arange(self.num_random_blocks, dtype="int32")
        begin = draws * others // self.num_random_blocks
        piece = (draws + 1) * others // self.num_random_blocks - begin
        chance = (self.factors * number + self.shifts) % PRIME  # (N B, H, r)
        step = begin + chance % ops.maximum(piece, 1)
        circle = ops.maximum(count - 2, 1)
        drawn = 1 + (ops.minimum(number + 1, count - 2) + step) % circle
        inner = ops.logical_and(number >= 1, number <= count - 2)
        return ops.where(ops.logical_and(inner, piece > 0), drawn, -1)

    def _looking_on(self, documents, last, query, key, value) -> GlobalQueries:
        """Finds the outermost blocks that attend to the keys of each block."""
        blocks, last = documents.cut(self.block_size), self._cut(last)
        index, ids = self._outermost(documents, blocks, last, 0)
        if not documents.aligned:
            more, more_ids = self._outermost(documents, blocks, last, -1)
            other = ops.not_equal(blocks.starts[:, :, -1:], blocks.starts[:, :, :1])
            index = ops.concatenate([index, more], axis=2)
            ids = ops.concatenate([ids, ops.where(other, more_ids, 0)], axis=2)
        ids = ops.expand_dims(ids, 3)  # (N, B, Q, 1)
        visible = documents.visible(ops.expand_dims(blocks.ids, 2), ids)
        allowed = ops.logical_and(visible, ops.not_equal(ids, 0))
        return GlobalQueries(look_up(query, index), key, value, index, allowed)

    def _outermost(self, documents, blocks: DocumentMasks, last, token):
        """Finds the outermost blocks of the document at index `token` of each block.

        Returns:
            Two int32 arrays `(N, B, 2 b)`: the indices in the row of the two blocks'
            tokens, and these tokens' document ids, 0 for indices without a token.
        """
        at = slice(token, None) if token else slice(1)
        start, final, own = (
            blocks.starts[:, :, at],
            last[:, :, at],
            blocks.ids[:, :, at],
        )
        tokens = ops.arange(self.block_size, dtype="int32")
        index = ops.concatenate(
            [start + tokens, start + final * self.block_size + tokens], axis=2
        )
        ids = documents.ids_at(index)
        mine = final > 1
        if not documents.aligned:
            mine = ops.logical_and(mine, ops.equal(ids, own))
        return index, ops.where(mine, ids, 0)

    def _cut(self, ids):
        return cut_ids(ids, self.block_size)


def last_blocks(documents: DocumentMasks, size: int):
    """The index of the last block of each token's document.

    Args:
        documents: `DocumentMasks`.
        size: Tokens in a block.

    Returns:
        int32 `(B, T)`.

    Example:
    >>> import numpy as np
    >>> ids, positions = np.array([[1, 1, 1, 2, 2]]), np.array([[0, 1, 2, 0, 1]])
    >>> sequence_info = {"document_ids": ids, "position_ids": positions}
    >>> documents = read_documents(sequence_info, 5, "attention")
    >>> ops.convert_to_numpy(last_blocks(documents, size=2))
    array([[1, 1, 1, 0, 0]], dtype=int32)
    """
    positions = ops.where(ops.not_equal(documents.ids, 0), documents.positions, 0)
    if documents.aligned:
        last = ops.max(positions, axis=1, keepdims=True, initial=0)
        return (last + ops.zeros_like(positions)) // size
    return document_max(positions, documents) // size
