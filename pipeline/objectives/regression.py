"""Regression: `[CLS] text [SEP]`, as for classification, and a target number."""

from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.pooled import number_features, number_records
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record."""
    return number_features(run)


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes one record per document, in the order of the documents' keys."""
    return number_records(batch, tokenizer, run)
