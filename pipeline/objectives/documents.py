"""Documents laid into records; what the objectives on plain text share."""

from dataclasses import replace

import numpy as np

from configs.run import RunConfig
from pipeline.objectives.layout import beside, stretches
from pipeline.objectives.tokenized import TokenRows
from pipeline.packing import Packed, cut_documents, pack
from pipeline.tokenizers.interface import SpecialIds


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
    filled = np.flatnonzero(rows.lengths)
    parts: list[TokenRows | int] = [stretches(rows, filled, 0, rows.lengths[filled])]
    if begin is not None:
        parts.insert(0, begin)
    if special.end is not None:
        parts.append(special.end)
    framed = beside(*parts)
    length = run.data.sequence_length
    chunks = cut_documents(framed.row_splits, keys[filled], length)
    packed = pack(
        framed.ids,
        replace(chunks, documents=filled[chunks.documents]),
        length,
        pad=special.pad,
        together=run.data.layout.kind == "packed",
    )
    return framed, packed
