"""Regression: `[CLS] text [SEP]`, as for classification, and a number for the text."""

from configs.run import RunConfig
from pipeline.document_batch import DocumentBatch
from pipeline.documents import Split
from pipeline.features import Feature
from pipeline.objectives.classification import text_records
from pipeline.objectives.labelled import (
    label_numbers,
    number_feature,
    reasons_against_numbers,
)
from pipeline.objectives.layout import token_features
from pipeline.records import Records
from pipeline.tokenizers.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """The record contract."""
    return (*token_features(run.data.sequence_length), number_feature())


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """One record for each document, in the order of their keys."""
    reasons = reasons_against_numbers(batch, ["text", "label"])
    return text_records(batch, tokenizer, run, reasons, label_numbers)
