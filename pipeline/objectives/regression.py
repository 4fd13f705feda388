"""Regression: `[CLS] text [SEP]`, as for classification, and a target number."""

from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import (
    label_numbers,
    number_feature,
    reasons_against_numbers,
)
from transbeam.pipeline.objectives.classification import text_records
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.records.token_rows import token_features
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record."""
    return (*token_features(run.data.sequence_length), number_feature())


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes one record per document, in the order of their keys."""
    reasons = reasons_against_numbers(batch, ["text", "label"])
    return text_records(batch, tokenizer, run, reasons, label_numbers)
