"""Classification of pairs: `[CLS] text [SEP] second text [SEP]` and their class.

A pair that is too long is truncated longest-first: at the end of its longer text until
both are equally long, then at the ends of both in turn, the second text first ([Devlin
et al., 2019](https://arxiv.org/abs/1810.04805), in the code of `_truncate_seq_pair`).
"""

from collections.abc import Callable, Sequence

import numpy as np

from transbeam.configs.schema.objectives.supervised import PairClassificationConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import (
    label_feature,
    label_ids,
    one_each,
    reasons_against,
    rejected_rows,
    token_counts,
    usable_rows,
)
from transbeam.pipeline.objectives.base.special_tokens import needed
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.records.framing import frame_texts
from transbeam.pipeline.records.token_rows import (
    Grid,
    ranges,
    segment_feature,
    stretches,
    token_features,
    tokenize_column,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record."""
    assert isinstance(run.objective, PairClassificationConfig)
    length = run.data.sequence_length
    return (
        *token_features(length),
        segment_feature(length),
        label_feature(run.objective.labels),
    )


def longest_first(
    first: np.ndarray, second: np.ndarray, room: int
) -> tuple[np.ndarray, np.ndarray]:
    """Computes the kept lengths of both texts for longest-first truncation.

    Args:
        first: int (N,). The lengths of the first texts.
        second: int (N,). The lengths of the second texts.
        room: The maximum total length of a pair.

    Example:
    >>> longest_first(np.array([9, 2, 9]), np.array([3, 3, 9]), 7)
    (array([4, 2, 4]), array([3, 3, 3]))
    """
    kept = np.minimum(first, np.maximum(room - second, -(-room // 2)))
    return kept, np.minimum(second, room - kept)


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes one record per pair, in the order of their keys."""
    assert isinstance(run.objective, PairClassificationConfig)
    labels = run.objective.labels
    reasons = reasons_against(batch, ["text", "second_text", "label"], labels)
    return pair_records(
        batch, tokenizer, run, reasons, lambda used: label_ids(used, labels)
    )


def pair_records(
    batch: DocumentBatch,
    tokenizer: Tokenizer,
    run: RunConfig,
    reasons: Sequence[str | None],
    targets: Callable[[DocumentBatch], np.ndarray],
) -> Records:
    """Makes one record per usable pair, with its target as `label`.

    Args:
        batch: The documents.
        tokenizer: The run's tokenizer.
        run: The configuration of a run whose records have two texts.
        reasons: Why each document cannot be used; None if it can be.
        targets: Maps usable documents to their targets.
    """
    length = run.data.sequence_length
    begin = needed(tokenizer, run, "begin")
    end = needed(tokenizer, run, "end")
    rows = usable_rows(batch, reasons)
    usable = batch.take(rows)
    texts = tokenize_column(usable, tokenizer)
    second_texts = tokenize_column(usable, tokenizer, "second_text")

    filled = np.flatnonzero((texts.lengths > 0) & (second_texts.lengths > 0))
    whole = texts.lengths[filled], second_texts.lengths[filled]
    kept = longest_first(*whole, length - 3)
    first = stretches(texts, filled, 0, kept[0])
    second = stretches(second_texts, filled, 0, kept[1])
    framed = frame_texts(first, second, begin=begin, end=end)
    grid = Grid.from_lengths(framed.lengths, length)
    in_second = ranges(framed.lengths) >= np.repeat(kept[0] + 2, framed.lengths)
    cut = whole[0] - kept[0] + whole[1] - kept[1]
    documents = rows[filled]
    return Records(
        arrays={
            **grid.token_arrays(framed.ids, tokenizer.special.pad),
            "segment_ids": grid.put(in_second),
            "label": targets(batch.take(documents)),
        },
        placement=one_each(documents),
        lengths=framed.lengths,
        counts={
            **token_counts(tokenizer, first, second),
            "truncated_documents": int(np.sum(cut > 0)),
            "truncated_tokens": int(cut.sum()),
            "padding": grid.padding,
            "empty_documents": len(rows) - len(filled),
        },
        rejected=rejected_rows(reasons),
    )
