"""The document of each token, and the position of each document in its row.

Sparse kinds of attention select keys by their position in a document. The tokens of a
document are contiguous in the row, so a token's index in the row minus its position in
the document is the index of the document's first token.

Shapes: `B` batch, `T` length, `N` blocks, `b` tokens of a block, `Q` tokens looked up
for a block.
"""

from typing import Any, NamedTuple

from keras import ops

from transbeam.model.layers.attention.blockwise import cut_ids, rows_at
from transbeam.model.layers.sequence_info import packed


class DocumentMasks(NamedTuple):
    """Document ids and positions of tokens; int32 `(B, T)` or `(N, B, b)`.

    Attributes:
        ids: The 1-based index of a token's document in its row; 0 for padding.
        positions: A token's position in its document; for padding, 0, or the index in
            the row if `aligned`.
        starts: The index in the row of the first token of a token's document; for
            padding, the token's own index in the row, or 0 if `aligned`.
        packed: True if rows may hold several documents.
        aligned: True if every row is one document that starts at the row's start.
    """

    ids: Any
    positions: Any
    starts: Any
    packed: bool
    aligned: bool

    def cut(self, size: int) -> "DocumentMasks":
        """Splits ids, positions and starts into blocks, the last one padded."""
        ids, positions, starts = (cut_ids(part, size) for part in self[:3])
        return DocumentMasks(ids, positions, starts, self.packed, self.aligned)

    def ids_at(self, index):
        """Document ids at indices in the row; 0 outside of the row.

        Args:
            index: int32 `(N, B, Q)`.
        """
        length = ops.shape(self.ids)[1]
        inside = ops.logical_and(index >= 0, index < length)
        return ops.where(inside, look_up(self.ids, index), 0)

    def visible(self, key_ids, query_ids):
        """Marks real keys of the query's document; the arguments broadcast."""
        real = ops.not_equal(key_ids, 0)
        if self.aligned:
            return real
        return ops.logical_and(real, ops.equal(key_ids, query_ids))


def read_documents(sequence_info, length, name: str) -> DocumentMasks:
    """Converts a sequence info to document masks.

    Args:
        sequence_info: See `transbeam.model.layers.sequence_info`; the layer has already
            validated it.
        length: `T`.
        name: The layer's name, for error messages.

    Raises:
        ValueError: `sequence_info` has a prefix mask, which only full attention
            supports.

    Example:
    >>> import numpy as np
    >>> ids, positions = np.array([[1, 1, 2, 2]]), np.array([[0, 1, 0, 1]])
    >>> sequence_info = {"document_ids": ids, "position_ids": positions}
    >>> ops.convert_to_numpy(read_documents(sequence_info, 4, "attention").starts)
    array([[0, 0, 2, 2]], dtype=int32)
    """
    if "prefix_mask" in sequence_info:
        raise ValueError(
            f"{name}: sequence_info has prefix_mask; only full attention lets a whole "
            "document see its prefix"
        )
    ids = ops.cast(
        sequence_info["document_ids" if packed(sequence_info) else "padding_mask"],
        "int32",
    )
    index = ops.zeros_like(ids) + ops.arange(length, dtype="int32")  # (B, T)
    if "position_ids" not in sequence_info:
        starts = ops.zeros_like(ids)
        return DocumentMasks(ids, index, starts, packed=False, aligned=True)
    positions = ops.cast(sequence_info["position_ids"], "int32")
    # Padding gets arbitrary positions.
    real = ops.not_equal(ids, 0)
    positions = ops.where(real, positions, 0)
    starts = ops.where(real, ops.maximum(index - positions, 0), index)
    return DocumentMasks(ids, positions, starts, packed(sequence_info), aligned=False)


def look_up(x, index):
    """Gathers tokens of each row by their index in the row.

    Args:
        x: `(B, T, ...)`.
        index: int32 `(N, B, Q)`; an index outside of the row yields an arbitrary token
            of the row.

    Returns:
        `(N, B, Q, ...)`.

    Example:
    >>> rows = ops.array([[1, 2, 3], [4, 5, 6]])
    >>> ops.convert_to_numpy(look_up(rows, ops.array([[[0, 2], [1, 1]]])))
    array([[[1, 3],
            [5, 5]]], dtype=int32)
    """
    batch, length, *rest = ops.shape(x)
    tokens = ops.reshape(x, (batch * length, *rest))
    return rows_at(tokens, flat_index(index, batch, length))


def document_max(x, documents: DocumentMasks):
    """Computes the maximum over each token's document: `(B, T, ...)`."""
    batch, length, *rest = ops.shape(x)
    starts = ops.expand_dims(documents.starts, 0)  # as of one block
    tokens = ops.reshape(flat_index(starts, batch, length), (-1,))
    rows = ops.reshape(x, (batch * length, *rest))
    largest = ops.take(ops.segment_max(rows, tokens, batch * length), tokens, axis=0)
    return ops.reshape(largest, (batch, length, *rest))


def flat_index(index, batch, length):
    """Converts the index in a row to the index in all concatenated rows.

    Args:
        index: int32 `(N, B, ...)`.
        batch: `B`.
        length: `T`.
    """
    rows = ops.arange(batch, dtype="int32") * length
    rows = ops.reshape(rows, (-1, *[1] * (len(index.shape) - 2)))  # (B, 1, ...)
    return rows + ops.clip(index, 0, length - 1)
