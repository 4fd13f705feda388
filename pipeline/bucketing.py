"""Bucketing: records of a few lengths, one document each, in place of packing."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from configs.layout import BucketedLayout
from configs.run import RunConfig
from pipeline.document_batch import DocumentBatch
from pipeline.objectives.tokenized import tokenize_column
from pipeline.tokenizers.interface import Tokenizer


def bucket_runs(run: RunConfig) -> list[RunConfig]:
    """The configuration of each bucket: the run's, with the bucket's length.

    A packed run is its own only bucket.
    """
    layout = run.data.layout
    if not isinstance(layout, BucketedLayout):
        return [run]
    return [
        replace(
            run,
            data=replace(
                run.data,
                sequence_length=length,
                layout=BucketedLayout(lengths=(length,)),
            ),
        )
        for length in layout.lengths
    ]


def by_bucket(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig
) -> Iterator[tuple[RunConfig, np.ndarray]]:
    """Which documents go into which bucket: the shortest that holds them.

    One that is longer than all goes into the longest, where it is cut.

    Yields:
        A bucket's configuration, and the rows of its documents in the batch.
    """
    runs = bucket_runs(run)
    if len(runs) == 1:
        yield runs[0], np.arange(len(batch))
        return
    special = tokenizer.special
    frame = (special.begin is not None) + (special.end is not None)
    lengths = tokenize_column(batch, tokenizer).lengths + frame
    limits = [one.data.sequence_length for one in runs]
    bucket = np.minimum(np.searchsorted(limits, lengths), len(runs) - 1)
    for index, one in enumerate(runs):
        yield one, np.flatnonzero(bucket == index)
