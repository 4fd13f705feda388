"""Classification: `[CLS] text [SEP]` and the class of the text.

Texts that are too long are truncated; the removed tokens are counted.
"""

from collections.abc import Callable, Sequence

import numpy as np

from transbeam.configs.schema.objectives.supervised import ClassificationConfig
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
    stretches,
    token_features,
    tokenize_column,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record."""
    assert isinstance(run.objective, ClassificationConfig)
    return (
        *token_features(run.data.sequence_length),
        label_feature(run.objective.labels),
    )


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes one record per document, in the order of their keys."""
    assert isinstance(run.objective, ClassificationConfig)
    labels = run.objective.labels
    reasons = reasons_against(batch, ["text", "label"], labels)
    return text_records(
        batch, tokenizer, run, reasons, lambda used: label_ids(used, labels)
    )


def text_records(
    batch: DocumentBatch,
    tokenizer: Tokenizer,
    run: RunConfig,
    reasons: Sequence[str | None],
    targets: Callable[[DocumentBatch], np.ndarray],
) -> Records:
    """Makes one record per usable document, with its target as `label`.

    Args:
        batch: The documents.
        tokenizer: The run's tokenizer.
        run: The configuration of a run whose records have one text.
        reasons: Why each document cannot be used; None if it can be.
        targets: Maps usable documents to their targets.
    """
    length = run.data.sequence_length
    begin = needed(tokenizer, run, "begin")
    end = needed(tokenizer, run, "end")
    rows = usable_rows(batch, reasons)
    tokens = tokenize_column(batch.take(rows), tokenizer)

    filled = np.flatnonzero(tokens.lengths)
    kept = np.minimum(tokens.lengths, length - 2)[filled]
    content = stretches(tokens, filled, 0, kept)
    framed = frame_texts(content, begin=begin, end=end)
    grid = Grid.from_lengths(framed.lengths, length)
    documents = rows[filled]
    return Records(
        arrays={
            **grid.token_arrays(framed.ids, tokenizer.special.pad),
            "label": targets(batch.take(documents)),
        },
        placement=one_each(documents),
        lengths=framed.lengths,
        counts={
            **token_counts(tokenizer, content),
            "truncated_documents": int(np.sum(kept < tokens.lengths[filled])),
            "truncated_tokens": len(tokens.ids) - len(content.ids),
            "padding": grid.padding,
            "empty_documents": len(rows) - len(filled),
        },
        rejected=rejected_rows(reasons),
    )
