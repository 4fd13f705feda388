"""Classification: `[CLS] text [SEP]` and the class of the text."""

from transbeam.configs.schema.objectives.supervised import ClassificationConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.pooled import class_features, class_records
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record."""
    assert isinstance(run.objective, ClassificationConfig)
    return class_features(run, run.objective.labels)


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes one record per document, in the order of the documents' keys."""
    assert isinstance(run.objective, ClassificationConfig)
    return class_records(batch, tokenizer, run, run.objective.labels)
