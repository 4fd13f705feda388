"""Records of whole token rows, of which marked tokens are predicted."""

from collections.abc import Sequence

import numpy as np

from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.objectives.base.labels import rejected_rows, token_counts
from transbeam.pipeline.objectives.base.next_tokens import next_tokens, target_arrays
from transbeam.pipeline.records.features import Records
from transbeam.pipeline.records.packing.sequence_packing import Chunks, Packed, pack
from transbeam.pipeline.records.token_rows import TokenRows
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def make_target_records(
    rows: TokenRows,
    is_target: np.ndarray,
    documents: tuple[np.ndarray, np.ndarray],
    reasons: Sequence[str | None],
    tokenizer: Tokenizer,
    run: RunConfig,
) -> Records:
    """Packs whole token rows; the targets are the marked tokens among the next ones.

    Args:
        rows: The N rows with their special tokens, each at most a record long.
        is_target: bool (tokens,). Whether each of `rows.ids` is predicted.
        documents: int64 (N,) and uint64 (N,). The document's index in the batch, and
            its key, of each row.
        reasons: For each document of the batch, the reason why the document cannot be
            used, or None.
        tokenizer: The tokenizer, for the special tokens.
        run: The run's configuration, for the length.
    """
    index, keys = documents
    chunks = Chunks(
        starts=rows.row_splits[:-1],
        lengths=rows.lengths,
        keys=keys,
        offsets=np.zeros(len(index), np.int64),
        documents=index,
    )
    special = tokenizer.special
    packed = pack(rows.ids, chunks, run.data.sequence_length, pad=special.pad)
    targets, weights = next_tokens(rows, packed)
    weights *= np.append(is_target, False).take(_token_index(packed) + 1)
    silent = [special.pad, special.begin, special.end]
    content = rows.ids[~np.isin(rows.ids, [id_ for id_ in silent if id_ is not None])]
    return Records(
        arrays=target_arrays(packed, targets, weights),
        placement=packed.placement,
        lengths=packed.lengths,
        counts={
            **token_counts(tokenizer, TokenRows(content, np.array([0, len(content)]))),
            "padding": int(np.sum(packed.document_ids == 0)),
            "predictions": int(weights.sum()),
        },
        rejected=rejected_rows(reasons),
    )


def _token_index(packed: Packed) -> np.ndarray:
    """Returns the index of each token among all rows' tokens; of padding, any index."""
    first = packed.first_chunks(slice(None))[:, np.newaxis]
    chunk = np.maximum(first + packed.document_ids - 1, 0)
    if not len(packed.chunks):
        return chunk
    return packed.chunks.starts.take(chunk, mode="clip") + packed.position_ids
