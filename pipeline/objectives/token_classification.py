"""Token classification: a tag per word, predicted at the word's first piece."""

import numpy as np

from transbeam.configs.schema.objectives.supervised import TokenClassificationConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.words import (
    WordTargets,
    reasons_against_tags,
    word_features,
    word_records,
)
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record."""
    assert isinstance(run.objective, TokenClassificationConfig)
    shape, labels = (run.data.sequence_length,), list(run.objective.labels)
    target = Feature("label_ids", "int32", shape, f"the tag, as an index of {labels}")
    return word_features(run, target)


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes one or more records per sentence, in the order of the documents' keys."""
    assert isinstance(run.objective, TokenClassificationConfig)
    labels, all_pieces = run.objective.labels, run.objective.all_pieces
    ids = {label: index for index, label in enumerate(labels)}

    def reason_against(tag: str) -> str | None:
        if tag in ids:
            return None
        named = ", ".join(labels)
        return f"tag {tag!r} is not one of the configured labels ({named})"

    def targets(tags: list[str]) -> WordTargets:
        values = np.array([ids[tag] for tag in tags], np.int32)
        return WordTargets(values, np.ones(len(tags), np.bool_), all_pieces)

    reasons = reasons_against_tags(batch, reason_against)
    return word_records(batch, tokenizer, run, reasons, "label_ids", targets)
