"""Span corruption: spans of a text are replaced by sentinels and predicted (T5).

    text     Thank you for inviting me to your party last week </s>
    encoder  Thank you <0> me to your party <1> week </s>
    target   <0> for inviting <1> last </s>

References:
    - [Raffel et al., 2020](https://arxiv.org/abs/1910.10683), 3.1.4 and 3.3.4
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from transbeam.configs.schema.objectives.language_modeling import SpanCorruptionConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import token_counts
from transbeam.pipeline.objectives.base.span_noise import noise_mask
from transbeam.pipeline.objectives.base.special_tokens import needed_sentinels
from transbeam.pipeline.objectives.seq2seq import frame_pairs, pair_features
from transbeam.pipeline.records.features import DocumentPositions, Feature, Records
from transbeam.pipeline.records.packing.bin_packing import fill_pairs
from transbeam.pipeline.records.packing.sequence_packing import (
    BLOCK_TOKENS,
    Chunks,
    by_content,
    cut_documents,
    order_by_record,
)
from transbeam.pipeline.records.token_rows import (
    TokenRows,
    slice_rows,
    split_rows,
    tokenize_column,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record."""
    assert isinstance(run.objective, SpanCorruptionConfig)
    length = run.data.sequence_length
    return pair_features(length, run.objective.target_length(length))


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Corrupts documents, and packs the corrupted texts with the removed spans."""
    assert isinstance(run.objective, SpanCorruptionConfig)
    config, length = run.objective, run.data.sequence_length
    sides = length, config.target_length(length)
    longest = config.longest_text(length)
    sentinels = needed_sentinels(tokenizer, run)
    rows = tokenize_column(batch, tokenizer)
    chunks = by_content(cut_documents(rows.row_splits, batch.keys, longest))
    source, target = corrupt(rows.ids, chunks, np.array(sentinels), config, run.seed)
    order, record = order_by_record(
        fill_pairs(source.lengths + 1, target.lengths + 1, sides)
        if run.data.layout.kind == "packed"
        else np.arange(len(chunks))
    )
    chunks = chunks.take(order)
    source = slice_rows(source, order, 0, source.lengths[order])
    target = slice_rows(target, order, 0, target.lengths[order])
    framed = frame_pairs(source, target, record, sides, tokenizer, run)
    return Records(
        arrays=framed.arrays,
        placement=DocumentPositions(record, chunks.documents, chunks.offsets),
        lengths=framed.lengths,
        counts={
            **token_counts(tokenizer, rows),
            **framed.padding,
            "predictions": len(target.ids) + len(record),
            "empty_documents": int(np.sum(rows.lengths == 0)),
        },
    )


def corrupt(
    ids: np.ndarray,
    chunks: Chunks,
    sentinels: np.ndarray,
    config: SpanCorruptionConfig,
    seed: int,
) -> tuple[TokenRows, TokenRows]:
    """Replaces spans of texts by sentinels.

    Args:
        ids: int32. All texts, concatenated.
        chunks: The range of each of the N texts in `ids`.
        sentinels: int (S,). The sentinel ids for the first, second, … span of a text.
        config: Configuration with the noise density and the mean span length.
        seed: The run's seed.

    Returns:
        Two sets of N rows: the texts with a sentinel in place of each removed span; and
        the removed spans, each preceded by the span's sentinel. Each token of the texts
        is in exactly one of the two sets.
    """
    # Blocks of texts are so small that their tokens stay in the CPU cache.
    ends = np.cumsum(chunks.lengths)
    blocks = np.searchsorted(ends, np.arange(0, chunks.lengths.sum(), BLOCK_TOKENS))
    edges = [*blocks.tolist(), len(chunks)]
    parts = [
        _corrupt(ids, chunks.take(slice(start, stop)), sentinels, config, seed)
        for start, stop in pairwise(edges)
        if start < stop
    ]
    sources, targets = zip(*parts, strict=True) if parts else ((), ())
    return _joined(sources), _joined(targets)


def _corrupt(
    ids: np.ndarray,
    chunks: Chunks,
    sentinels: np.ndarray,
    config: SpanCorruptionConfig,
    seed: int,
) -> tuple[TokenRows, TokenRows]:
    everything = TokenRows(ids, np.array([0, len(ids)]))
    only_row = np.zeros(len(chunks), np.int64)
    rows = slice_rows(everything, only_row, chunks.starts, chunks.lengths)
    noise = noise_mask(chunks, config, seed)
    starts = noise.copy()
    starts[1:] &= ~noise[:-1]
    starts[rows.row_splits[:-1]] = noise[rows.row_splits[:-1]]  # not across texts
    spans_before = np.concatenate([[0], np.cumsum(starts)])
    base = np.repeat(spans_before[rows.row_splits[:-1]], rows.lengths)
    sentinel = sentinels[np.maximum(spans_before[1:] - base - 1, 0)].astype(np.int32)

    shown = ~noise | starts
    source = np.where(starts, sentinel, rows.ids)[shown]
    both = np.stack([sentinel, rows.ids], axis=1)
    in_target = np.stack([starts, noise], axis=1)
    return (
        split_rows(source, _per_row(shown, rows)),
        split_rows(both[in_target], _per_row(noise, rows) + _per_row(starts, rows)),
    )


def _joined(parts: Sequence[TokenRows]) -> TokenRows:
    nothing = TokenRows(np.zeros(0, np.int32), np.zeros(1, np.int64))
    return split_rows(
        np.concatenate([part.ids for part in (nothing, *parts)]),
        np.concatenate([part.lengths for part in (nothing, *parts)]),
    )


def _per_row(flags: np.ndarray, rows: TokenRows) -> np.ndarray:
    """Counts the flags that are set in each row, int64."""
    return np.diff(np.concatenate([[0], np.cumsum(flags)])[rows.row_splits])
