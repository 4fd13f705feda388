"""Regression of pairs: `[CLS] text [SEP] second text [SEP]` and a number for both.

A pair that is too long is truncated as for classification.
"""

from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import (
    label_numbers,
    number_feature,
    reasons_against_numbers,
)
from transbeam.pipeline.objectives.pair_classification import pair_records
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.records.token_rows import segment_feature, token_features
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record."""
    length = run.data.sequence_length
    return (*token_features(length), segment_feature(length), number_feature())


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes one record per pair, in the order of their keys."""
    reasons = reasons_against_numbers(batch, ["text", "second_text", "label"])
    return pair_records(batch, tokenizer, run, reasons, label_numbers)
