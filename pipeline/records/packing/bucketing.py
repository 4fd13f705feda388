"""Bucketing: records of a few lengths with one document each, instead of packing."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from transbeam.configs.schema.data import BucketedLayoutConfig
from transbeam.configs.schema.objectives.objective import EmbeddingObjective
from transbeam.configs.schema.objectives.traits import fields_needed
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.records.token_rows import tokenize_column, tokenize_words
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def bucket_runs(run: RunConfig) -> list[RunConfig]:
    """Returns the run's configuration for each bucket, with the bucket's length.

    A run with packed records has a single bucket.
    """
    layout = run.data.layout
    if not isinstance(layout, BucketedLayoutConfig):
        return [run]
    return [
        replace(
            run,
            data=replace(
                run.data,
                sequence_length=length,
                layout=BucketedLayoutConfig(lengths=(length,)),
            ),
        )
        for length in layout.lengths
    ]


def by_bucket(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig
) -> Iterator[tuple[RunConfig, np.ndarray]]:
    """Assigns documents to the shortest bucket that they fit into.

    Documents that are too long for all buckets go into the longest one and are
    truncated.

    Yields:
        The configuration of a bucket, and the rows of its documents in the batch.
    """
    runs = bucket_runs(run)
    if len(runs) == 1:
        yield runs[0], np.arange(len(batch))
        return
    lengths = _framed_lengths(batch, tokenizer, run)
    limits = [one.data.sequence_length for one in runs]
    bucket = np.minimum(np.searchsorted(limits, lengths), len(runs) - 1)
    for index, one in enumerate(runs):
        yield one, np.flatnonzero(bucket == index)


def _framed_lengths(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig
) -> np.ndarray:
    """Counts the tokens of each document including special tokens, int64 (D,)."""
    special = tokenizer.special
    begin, end = special.begin is not None, special.end is not None
    fields = fields_needed(run.objective)
    if "words" in fields:
        sentences = batch.values("words")
        pieces = tokenize_words(sentences, tokenizer, run).row_splits
        words = np.cumsum([0, *(len(sentence) for sentence in sentences)])
        return np.diff(pieces[words]) + begin + end
    lengths = tokenize_column(batch, tokenizer).lengths + begin + end
    if isinstance(run.objective, EmbeddingObjective):
        # Each text has a row of its own in the record.
        others = [tokenize_column(batch, tokenizer, name) for name in fields[1:]]
        return np.max([lengths, *(row.lengths + begin + end for row in others)], axis=0)
    if "second_text" in fields:
        lengths += tokenize_column(batch, tokenizer, "second_text").lengths + end
    return lengths
