"""Packing: several documents side by side in one record, hardly any padding.

A long document is first cut into chunks that fill a record. Then the chunks, longest
first, each go into the fullest record that still has room (best fit). No chunk that
fits is cut, and the result depends on the chunks' lengths and keys alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Chunks:
    """Stretches of one long array of ids, each at most a record long.

    Attributes:
        starts: int64 (N,). Where each begins in the array of ids.
        lengths: int64 (N,).
        keys: uint64 (N,). Hash of the document.
        offsets: int64 (N,). Place of the chunk's first token within the document.
    """

    starts: np.ndarray
    lengths: np.ndarray
    keys: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)


def cut_documents(row_splits: np.ndarray, keys: np.ndarray, longest: int) -> Chunks:
    """Cuts documents into chunks of at most `longest` tokens.

    Args:
        row_splits: int64 (D + 1,). Where each document starts, and the end.
        keys: uint64 (D,). The documents' hashes.
        longest: Tokens of content a record can hold.

    Example:
    >>> cut_documents(np.array([0, 5, 5, 7]), np.arange(3, dtype="u8"), 4).lengths
    array([4, 1, 2])
    """
    sizes = np.diff(row_splits)
    per_document = -(-sizes // longest)  # an empty document has no chunk
    owner = np.repeat(np.arange(len(sizes)), per_document)
    first_chunk = np.cumsum(per_document) - per_document
    offsets = (np.arange(len(owner)) - first_chunk[owner]) * longest
    return Chunks(
        starts=row_splits[:-1][owner] + offsets,
        lengths=np.minimum(sizes[owner] - offsets, longest),
        keys=keys[owner],
        offsets=offsets,
    )


def best_fit(lengths: np.ndarray, capacity: int) -> list[list[int]]:
    """Groups chunks into records by best fit, longest chunk first.

    Args:
        lengths: int (N,). What each chunk takes of a record; equal ones keep their
            order.
        capacity: What a record holds; no length is larger.

    Returns:
        For each record the chunks in it, by index. Records are in the order they
        were opened.

    Example:
    >>> best_fit(np.array([3, 6, 4, 2, 5]), 10)
    [[1, 2], [4, 0, 3]]
    """
    records: list[list[int]] = []
    open_records: list[list[int]] = [[] for _ in range(capacity + 1)]  # by room left
    rooms = 0  # bit r is set while some record has room r: finds the best in one step
    for chunk in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[chunk])
        fitting = rooms >> length
        if fitting:
            room = length + ((fitting & -fitting).bit_length() - 1)
            record = open_records[room].pop()
            if not open_records[room]:
                rooms &= ~(1 << room)
        else:
            room, record = capacity, len(records)
            records.append([])
        records[record].append(chunk)
        left = room - length
        open_records[left].append(record)
        rooms |= 1 << left
    return records


@dataclass(frozen=True)
class Packed:
    """Records side by side; all arrays are (records, sequence_length).

    Attributes:
        token_ids: int32, with `[CLS]` before and `[SEP]` after each document.
        document_ids: int32, 1, 2, … per record; 0 on padding.
        position_ids: int32, from 0 in each document.
        is_content: bool, True on tokens that are neither special nor padding.
        keys: uint64, the hash of the document each token comes from.
        counters: int64, the token's place in its whole document.
    """

    token_ids: np.ndarray
    document_ids: np.ndarray
    position_ids: np.ndarray
    is_content: np.ndarray
    keys: np.ndarray
    counters: np.ndarray

    def __len__(self) -> int:
        return len(self.token_ids)


def pack(
    ids: np.ndarray,
    chunks: Chunks,
    sequence_length: int,
    *,
    cls_id: int,
    sep_id: int,
    pad_id: int,
) -> Packed:
    """Lays chunks into records: `[CLS] a… [SEP] [CLS] b… [SEP] [PAD]…`.

    Args:
        ids: int32, the ids of all documents in one row.
        chunks: Which stretches of it; at most `sequence_length - 2` long.
        sequence_length: Tokens per record.
        cls_id: Goes before each document.
        sep_id: Goes after each document.
        pad_id: Fills the rest of a record.
    """
    order = np.lexsort((chunks.offsets, chunks.keys))  # by content, not by arrival
    framed = chunks.lengths[order] + 2
    records = best_fit(framed, sequence_length)
    # By first-fit order the fullest records would come first: stir by content.
    records.sort(key=lambda record: int(chunks.keys[order[record[0]]]) * _STIR % 2**64)

    sizes = np.array([len(record) for record in records], np.int64)
    placed = np.array([chunk for record in records for chunk in record], np.int64)
    record_of = np.repeat(np.arange(len(records)), sizes)
    framed = framed[placed]
    chosen = order[placed]
    # Column of each chunk: what stands before it in its record.
    before = np.cumsum(framed) - framed
    record_start = before[np.cumsum(sizes) - sizes][record_of]
    column = before - record_start
    ordinal = np.arange(len(placed)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1

    shape = (len(records), sequence_length)
    start = record_of * sequence_length + column
    cells = np.repeat(start, framed) + _ranges(framed)
    lengths = chunks.lengths[chosen]
    content = np.repeat(start + 1, lengths) + _ranges(lengths)

    def scattered(at: np.ndarray, values: np.ndarray, dtype: type, fill: int = 0):
        row = np.full(shape[0] * shape[1], fill, dtype)
        row[at] = values
        return row.reshape(shape)

    token_ids = scattered(
        content,
        ids[np.repeat(chunks.starts[chosen], lengths) + _ranges(lengths)],
        np.int32,
        pad_id,
    )
    token_ids.reshape(-1)[start] = cls_id
    token_ids.reshape(-1)[start + framed - 1] = sep_id
    return Packed(
        token_ids=token_ids,
        document_ids=scattered(cells, np.repeat(ordinal, framed), np.int32),
        position_ids=scattered(cells, _ranges(framed), np.int32),
        is_content=scattered(content, np.ones(len(content), np.bool_), np.bool_),
        keys=scattered(content, np.repeat(chunks.keys[chosen], lengths), np.uint64),
        counters=scattered(
            content,
            np.repeat(chunks.offsets[chosen], lengths) + _ranges(lengths),
            np.int64,
        ),
    )


_STIR = 0x9E3779B97F4A7C15  # odd, so multiplying by it permutes the 64-bit numbers


def _ranges(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """0 … n-1 for each n, one after another: [2, 3] gives 0 1 0 1 2."""
    lengths = np.asarray(lengths)
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
