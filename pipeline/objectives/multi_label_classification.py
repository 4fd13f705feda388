"""Multi-label classification: `[CLS] text [SEP]`, and a 0/1 target per label."""

import json

import numpy as np

from transbeam.configs.schema.objectives.supervised import (
    MultiLabelClassificationConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split, excerpt
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.labels import reasons_against
from transbeam.pipeline.objectives.base.pooled import pooled_features, pooled_records
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """The record contract."""
    assert isinstance(run.objective, MultiLabelClassificationConfig)
    labels = run.objective.labels
    meaning = f"1 for each label that applies, in the order of {list(labels)}"
    return pooled_features(run, Feature("label", "int32", (len(labels),), meaning))


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes one record per document, in the order of the documents' keys."""
    assert isinstance(run.objective, MultiLabelClassificationConfig)
    config = run.objective
    reasons = reasons_against(batch, ["text", "label"])
    for row, label in enumerate(batch.values("label")):
        reasons[row] = reasons[row] or _reason_against(label, config)
    return pooled_records(
        batch, tokenizer, run, reasons, lambda used: _label_sets(used, config)
    )


def label_names(label: str, separator: str) -> list[str]:
    """Parses label names: a JSON list of them, or a text with separators.

    Example:
    >>> label_names('["sport", "law"]', ","), label_names("sport, law", ",")
    (['sport', 'law'], ['sport', 'law'])
    >>> label_names("[]", ",")
    []
    """
    if label.startswith("["):
        try:
            return list(map(str, json.loads(label)))
        except ValueError:
            pass  # a name that begins with a bracket
    return [name.strip() for name in label.split(separator)]


def _reason_against(label: str, config: MultiLabelClassificationConfig) -> str | None:
    for name in label_names(label, config.separator):
        if name not in config.labels:
            return (
                f"label {excerpt(name)!r} is not one of the configured labels "
                f"({', '.join(config.labels)})"
            )
    return None


def _label_sets(
    batch: DocumentBatch, config: MultiLabelClassificationConfig
) -> np.ndarray:
    """int32 (D, C). 1 for each label of each document."""
    places = {label: place for place, label in enumerate(config.labels)}
    found = np.zeros((len(batch), len(places)), np.int32)
    for row, label in enumerate(batch.values("label")):
        found[row, [places[x] for x in label_names(label, config.separator)]] = 1
    return found
