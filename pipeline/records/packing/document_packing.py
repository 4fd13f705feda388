"""Packs documents into records, for the objectives on plain text."""

from dataclasses import replace

import numpy as np

from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.records.packing.sequence_packing import (
    Packed,
    cut_documents,
    pack,
)
from transbeam.pipeline.records.token_rows import TokenRows
from transbeam.pipeline.tokenizers.base.interface import SpecialIds


def lay_documents(
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


def lay_streams(
    rows: TokenRows, keys: np.ndarray, run: RunConfig, special: SpecialIds
) -> tuple[TokenRows, Packed]:
    """Packs documents that get begin and end tokens before they are cut into chunks.

    Only the first chunk of a document has a begin token, and only the last one an end
    token. GPT-2 has one token for both, which is added at the end only.

    Returns:
        The documents with these tokens, without the empty ones; and their records.
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
