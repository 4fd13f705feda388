"""Regression: `[CLS] text [SEP]`, as for classification, and a number for the text."""

from transbeam.configs.run import RunConfig
from transbeam.pipeline.document_batch import DocumentBatch
from transbeam.pipeline.documents import Split
from transbeam.pipeline.features import Feature
from transbeam.pipeline.objectives.classification import text_records
from transbeam.pipeline.objectives.labelled import (
    label_numbers,
    number_feature,
    reasons_against_numbers,
)
from transbeam.pipeline.objectives.layout import token_features
from transbeam.pipeline.records import Records
from transbeam.pipeline.tokenizers.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """The record contract."""
    return (*token_features(run.data.sequence_length), number_feature())


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """One record for each document, in the order of their keys."""
    reasons = reasons_against_numbers(batch, ["text", "label"])
    return text_records(batch, tokenizer, run, reasons, label_numbers)
