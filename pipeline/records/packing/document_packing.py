"""Documents laid into records; what the objectives on plain text share."""

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
    """Records of documents, each chunk between the pieces that frame a text."""
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
    """Records of documents that are framed as a whole, before they are cut.

    A chunk that does not begin or end its document does not claim to. GPT-2 has one
    piece for both; it then stands at the end only.

    Returns:
        The framed documents, without the empty ones; and the records of them.
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
