"""Packing: several documents in one record, with hardly any padding.

Long documents are first cut into chunks that fill a record. Then chunks are combined
into full records. A document that fits into a record is not cut, and the result depends
only on the lengths, keys and offsets of the chunks.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.randomness import mix
from transbeam.pipeline.records.features import DocumentPositions
from transbeam.pipeline.records.packing.bin_packing import fill_records
from transbeam.pipeline.records.token_rows import TokenRows
from transbeam.pipeline.tokenizers.base.interface import SpecialIds

BLOCK_TOKENS = 2**15


@dataclass(frozen=True)
class Chunks:
    """Chunks of documents, each chunk at most a record long; all arrays are (N,).

    Attributes:
        starts: int64. Start of each chunk in the array of all documents' ids.
        lengths: int64.
        keys: uint64. Hash of the document.
        offsets: int64. Index of the chunk's first token within the document.
        documents: int64. The document's row in the batch.
    """

    starts: np.ndarray
    lengths: np.ndarray
    keys: np.ndarray
    offsets: np.ndarray
    documents: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: np.ndarray | slice) -> "Chunks":
        """Selects chunks by index, in the order of `rows`."""
        return Chunks(*(getattr(self, field.name)[rows] for field in fields(self)))


def cut_documents(row_splits: np.ndarray, keys: np.ndarray, longest: int) -> Chunks:
    """Cuts documents into chunks of at most `longest` tokens.

    Args:
        row_splits: int64 (D + 1,). The start offset of each document, then the end
            offset of the last one.
        keys: uint64 (D,). The documents' hashes.
        longest: The maximum number of content tokens per record.

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
        documents=owner,
    )


@dataclass(frozen=True)
class Packed:
    """Packed records and their chunks.

    Attributes:
        token_ids: int32 (records, sequence_length), with special tokens.
        document_ids: int32, the same shape: the number of the token's chunk in the
            record, from 1; 0 on padding.
        position_ids: int32, the same shape: the position within the chunk, from 0; 0 on
            padding.
        is_content: bool, the same shape: True except on special tokens and padding.
        chunks: The chunks in the order of the records.
        record: int64 (N,). The index of each chunk's record, ascending.
    """

    token_ids: np.ndarray
    document_ids: np.ndarray
    position_ids: np.ndarray
    is_content: np.ndarray
    chunks: Chunks
    record: np.ndarray

    def __len__(self) -> int:
        return len(self.token_ids)

    def first_chunks(self, rows: slice) -> np.ndarray:
        """Returns the index of each selected record's first chunk, int64 (rows,)."""
        return np.searchsorted(self.record, np.arange(len(self))[rows])

    @property
    def placement(self) -> DocumentPositions:
        return DocumentPositions(
            self.record, self.chunks.documents, self.chunks.offsets
        )

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each record without padding, int64 (records,)."""
        return np.count_nonzero(self.document_ids, axis=1)


def pack(
    ids: np.ndarray,
    chunks: Chunks,
    sequence_length: int,
    *,
    pad: int,
    begin: int | None = None,
    end: int | None = None,
    together: bool = True,
) -> Packed:
    """Packs chunks a, b, … into records: `[CLS] a… [SEP] [CLS] b… [SEP] [PAD]…`.

    Args:
        ids: int32, the concatenated ids of all documents.
        chunks: The chunks; a chunk with its special tokens is no longer than a record.
        sequence_length: Tokens per record.
        pad: The id of padding.
        begin: The id of the special token before each chunk, if any.
        end: The id of the special token after each chunk, if any.
        together: Whether a record may have several chunks.
    """
    frame = (begin is not None) + (end is not None)
    chunks = by_content(chunks)
    if together:
        record = fill_records(chunks.lengths + frame, sequence_length)
    else:
        record = np.arange(len(chunks))
    order, record = order_by_record(record)
    special = (pad, begin, end)
    return _laid(ids, chunks.take(order), record, sequence_length, special)


def by_content(chunks: Chunks) -> Chunks:
    """Shuffles chunks by hashes of document key and offset, not by original order."""
    content = mix(chunks.keys ^ mix(chunks.offsets.astype(np.uint64)))
    return chunks.take(np.argsort(content, kind="stable"))


def order_by_record(record: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorts chunks by record, and the records by their first chunk.

    Args:
        record: int64 (N,). The index of each chunk's record. Records are numbered in
            the order in which they were filled, records with long chunks first; as the
            chunks are shuffled, sorting the records by their first chunk shuffles the
            records.

    Returns:
        int64 (N,), the indices of the chunks in the order of the records; and int64
        (N,), the record of each of these chunks, ascending from 0.
    """
    first = np.empty(record.max(initial=-1) + 1, np.int64)
    first[record[::-1]] = np.arange(len(record))[::-1]  # the last write wins
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    # Sorting numbers that contain their index is much faster than argsort.
    count = max(len(record), 1)
    order = np.sort(rank[record] * count + np.arange(len(record))) % count
    return order, rank[record[order]]


def _laid(
    ids: np.ndarray,
    chunks: Chunks,
    record: np.ndarray,
    sequence_length: int,
    special: tuple[int, int | None, int | None],
) -> Packed:
    """Makes the record arrays from chunks that are sorted by record."""
    records = int(record[-1]) + 1 if len(record) else 0
    shape = (records, sequence_length)
    packed = Packed(
        token_ids=np.empty(shape, np.int32),
        document_ids=np.empty(shape, np.int32),
        position_ids=np.empty(shape, np.int32),
        is_content=np.empty(shape, np.bool_),
        chunks=chunks,
        record=record,
    )
    for rows in row_blocks(records, sequence_length):
        first, last = np.searchsorted(record, [rows.start, rows.stop])
        part = chunks.take(slice(first, last))
        _lay_block(ids, part, record[first:last] - rows.start, packed, rows, special)
    return packed


def row_blocks(records: int, sequence_length: int) -> list[slice]:
    """Returns slices of records whose arrays fit into the CPU cache."""
    step = max(1, BLOCK_TOKENS // sequence_length)
    return [slice(i, min(i + step, records)) for i in range(0, records, step)]


def _lay_block(
    ids: np.ndarray,
    chunks: Chunks,
    record: np.ndarray,
    packed: Packed,
    rows: slice,
    special: tuple[int, int | None, int | None],
) -> None:
    """Fills the records `rows` of `packed`; each record has at least one chunk."""
    pad, begin, end = special
    before = int(begin is not None)
    framed = chunks.lengths + before + (end is not None)
    document_ids = packed.document_ids[rows].reshape(-1)
    position_ids = packed.position_ids[rows].reshape(-1)
    token_ids = packed.token_ids[rows].reshape(-1)
    is_content = packed.is_content[rows].reshape(-1)

    # Segments: the chunks of a record, followed by its padding (of any length).
    per_record = np.bincount(record)
    room = packed.token_ids.shape[1] - np.bincount(record, framed).astype(np.int64)
    last = np.cumsum(per_record)
    is_chunk = np.ones(len(record) + len(room), np.bool_)
    is_chunk[last + np.arange(len(room))] = False

    def by_segment(of_chunks: np.ndarray, of_padding: np.ndarray | int = 0):
        values = np.empty(len(is_chunk), np.int32)
        values[is_chunk], values[~is_chunk] = of_chunks, of_padding
        return values

    lengths = by_segment(framed, room)
    start = np.cumsum(lengths, dtype=np.int32) - lengths
    ordinal = np.arange(len(record)) - (last - per_record)[record] + 1
    document_ids[:] = np.repeat(by_segment(ordinal), lengths)
    cell = np.arange(len(token_ids), dtype=np.int32)
    np.subtract(cell, np.repeat(start, lengths), out=position_ids)
    padding = document_ids == 0
    position_ids[padding] = 0

    # The source of each token; arbitrary for special tokens and padding.
    origin = np.repeat(by_segment(chunks.starts - before), lengths) + position_ids
    ids.take(origin, mode="clip", out=token_ids)
    token_ids[padding] = pad
    np.logical_not(padding, out=is_content)
    for piece, place in ((begin, 0), (end, framed - 1)):
        if piece is not None:
            cells = start[is_chunk] + place
            token_ids[cells] = piece
            is_content[cells] = False


def pack_documents(
    rows: TokenRows, keys: np.ndarray, run: RunConfig, special: SpecialIds
) -> Packed:
    """Packs documents, each chunk between begin and end tokens."""
    length = run.data.sequence_length
    frame = (special.begin is not None) + (special.end is not None)
    return pack(
        rows.ids,
        cut_documents(rows.row_splits, keys, length - frame),
        length,
        pad=special.pad,
        begin=special.begin,
        end=special.end,
        together=run.data.layout.kind == "packed",
    )


def pack_streams(
    rows: TokenRows, keys: np.ndarray, run: RunConfig, special: SpecialIds
) -> tuple[TokenRows, Packed]:
    """Packs documents that get begin and end tokens before they are cut into chunks.

    Only the first chunk of a document has a begin token, and only the last one an end
    token. GPT-2 has a single token for begin and end, which is added only at the end.

    Returns:
        The non-empty documents with begin and end tokens, one row each; and the records
        packed from them.
    """
    begin = special.begin if special.begin != special.end else None
    frame = (begin is not None) + (special.end is not None)
    filled = np.flatnonzero(rows.lengths)
    row_splits = np.concatenate([[0], np.cumsum(rows.lengths[filled] + frame)])
    framed = np.empty(row_splits[-1], np.int32)
    is_content = np.ones(len(framed), np.bool_)
    for piece, cells in ((begin, row_splits[:-1]), (special.end, row_splits[1:] - 1)):
        if piece is not None:
            framed[cells] = piece
            is_content[cells] = False
    framed[is_content] = rows.ids
    length = run.data.sequence_length
    chunks = cut_documents(row_splits, keys[filled], length)
    packed = pack(
        framed,
        replace(chunks, documents=filled[chunks.documents]),
        length,
        pad=special.pad,
        together=run.data.layout.kind == "packed",
    )
    return TokenRows(framed, row_splits), packed
