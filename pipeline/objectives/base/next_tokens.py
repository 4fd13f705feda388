"""The next tokens of packed documents, and the arrays of their records."""

import numpy as np

from transbeam.pipeline.records.packing.sequence_packing import Packed
from transbeam.pipeline.records.token_rows import TokenRows


def next_tokens(stream: TokenRows, packed: Packed) -> tuple[np.ndarray, np.ndarray]:
    """Returns each token's next token in its document, even if it is in another record.

    Each token of a document except the first is thus predicted exactly once.

    Args:
        stream: The documents.
        packed: The records in which the documents are packed, without special tokens
            around chunks.

    Returns:
        int32 and float32, of the shape of `packed.token_ids`: the targets, and their
        weights: 1 for tokens with a target, else 0.
    """
    document_ids = packed.document_ids
    targets = np.zeros_like(packed.token_ids)
    follows = np.zeros(targets.shape, np.bool_)
    follows[:, :-1] = document_ids[:, 1:] == document_ids[:, :-1]
    follows &= document_ids > 0
    targets[:, :-1] = packed.token_ids[:, 1:] * follows[:, :-1]

    # At a cut in a document, the next token is the first of the next chunk.
    last_cells = np.flatnonzero((document_ids > 0) & ~follows)  # in the order of chunks
    after = packed.chunks.starts + packed.chunks.lengths
    is_cut = ~np.isin(after, stream.row_splits)
    targets.reshape(-1)[last_cells[is_cut]] = stream.ids[after[is_cut]]
    follows.reshape(-1)[last_cells[is_cut]] = True
    return targets, follows.astype(np.float32)


def target_arrays(
    packed: Packed, targets: np.ndarray, weights: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns the arrays of a decoder's records.

    Args:
        packed: The records.
        targets: int32, of the shape of `packed.token_ids`. The token after each token.
        weights: float32, of the same shape. 1 where the target is predicted, else 0.
    """
    return {
        "token_ids": packed.token_ids,
        "document_ids": packed.document_ids,
        "position_ids": packed.position_ids,
        "target_ids": targets,
        "target_weights": weights,
    }
