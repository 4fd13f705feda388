"""Records of one text, or of a pair of texts, with one target.

    [CLS] text [SEP]
    [CLS] text [SEP] second text [SEP]

The special tokens of a decoder's records are others, see
`transbeam.pipeline.tokenizers.base.text_frame`.

Texts that are too long are truncated; the removed tokens are counted. A pair is
truncated longest-first: at the end of its longer text until both texts are equally
long, then alternately at the ends of both texts, the second text first ([Devlin et al.,
2019](https://arxiv.org/abs/1810.04805), in the code of `_truncate_seq_pair`).
"""

from collections.abc import Callable, Sequence

import numpy as np

from transbeam.configs.schema.objectives.traits import input_names, traits
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import (
    label_feature,
    label_ids,
    label_numbers,
    number_feature,
    one_per_record,
    reasons_against,
    reasons_against_numbers,
    rejected_rows,
    token_counts,
    usable_rows,
)
from transbeam.pipeline.objectives.base.special_tokens import check_special
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.records.framing import frame_texts
from transbeam.pipeline.records.token_rows import (
    Grid,
    ranges,
    segment_feature,
    slice_rows,
    token_features,
    tokenize_column,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.text_frame import frame_of_run


def pooled_features(run: RunConfig, target: Feature) -> tuple[Feature, ...]:
    """Returns the features of a record; the last one is its target."""
    length = run.data.sequence_length
    if traits(run.objective).has_segments:
        return (*token_features(length), segment_feature(length), target)
    return (*token_features(length), target)


def class_features(run: RunConfig, labels: Sequence[str]) -> tuple[Feature, ...]:
    """Returns the features of a record whose target is a class."""
    return pooled_features(run, label_feature(labels))


def class_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, labels: Sequence[str]
) -> Records:
    """Makes one record per document, whose target is its class."""
    reasons = reasons_against(batch, traits(run.objective).fields, labels)
    return pooled_records(
        batch, tokenizer, run, reasons, lambda used: label_ids(used, labels)
    )


def number_features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record whose target is a number."""
    return pooled_features(run, number_feature())


def number_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig
) -> Records:
    """Makes one record per document, whose target is its number."""
    reasons = reasons_against_numbers(batch, traits(run.objective).fields)
    return pooled_records(batch, tokenizer, run, reasons, label_numbers)


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


def pooled_records(
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
        run: The configuration of a run whose records have a text or a pair of texts.
        reasons: For each document, the reason why it cannot be used; None if it can be.
        targets: Maps usable documents to their targets.
    """
    length = run.data.sequence_length
    check_special(tokenizer.special, run)
    frame = frame_of_run(run, tokenizer.special)
    rows = usable_rows(batch, reasons)
    usable = batch.take(rows)
    columns = input_names(run.objective)
    texts = [tokenize_column(usable, tokenizer, name) for name in columns]

    filled = np.flatnonzero(np.all([text.lengths > 0 for text in texts], axis=0))
    whole = [text.lengths[filled] for text in texts]
    room = length - frame.size(len(texts))
    if len(texts) == 2:
        kept = longest_first(whole[0], whole[1], room)
    else:
        kept = (np.minimum(whole[0], room),)
    contents = [
        slice_rows(text, filled, 0, size)
        for text, size in zip(texts, kept, strict=True)
    ]
    framed = frame_texts(*contents, frame=frame)
    grid = Grid.from_lengths(framed.lengths, length)
    arrays = grid.token_arrays(framed.ids, tokenizer.special.pad)
    if len(texts) == 2:
        until_second = kept[0] + frame.starts + 1
        in_second = ranges(framed.lengths) >= np.repeat(until_second, framed.lengths)
        arrays["segment_ids"] = grid.put(in_second)
    cut = sum(whole) - sum(kept)
    documents = rows[filled]
    return Records(
        arrays={**arrays, "label": targets(batch.take(documents))},
        placement=one_per_record(documents),
        lengths=framed.lengths,
        counts={
            **token_counts(tokenizer, *contents),
            "truncated_documents": int(np.sum(cut > 0)),
            "truncated_tokens": int(np.sum(cut)),
            "padding": grid.padding,
            "empty_documents": len(rows) - len(filled),
        },
        rejected=rejected_rows(reasons),
    )
