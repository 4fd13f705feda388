"""Helpers for objectives with labeled documents."""

import math
from collections.abc import Sequence

import numpy as np

from transbeam.pipeline.documents.document import excerpt
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.records.features import DocumentPositions, Feature
from transbeam.pipeline.records.token_rows import TokenRows
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def label_feature(labels: Sequence[str]) -> Feature:
    """Returns the feature for a record's target class."""
    return Feature("label", "int32", (), f"the class, as an index of {list(labels)}")


def number_feature() -> Feature:
    """Returns the feature for a record's numeric target."""
    return Feature("label", "float32", (), "the target number")


def reasons_against(
    batch: DocumentBatch, columns: Sequence[str], labels: Sequence[str] | None = None
) -> list[str | None]:
    """Returns the reason why each document cannot be used; None if it can be.

    Args:
        batch: The documents.
        columns: The required columns.
        labels: The allowed labels, if a label is required.
    """
    reasons: list[str | None] = [None] * len(batch)
    for column in columns:
        for row, value in enumerate(batch.values(column)):
            if not value:
                reasons[row] = reasons[row] or f"no {column}"
    if labels is not None:
        for row, label in enumerate(batch.values("label")):
            if label not in labels:
                reasons[row] = reasons[row] or (
                    f"label {label!r} is not one of the configured labels "
                    f"({', '.join(labels)})"
                )
    return reasons


def reasons_against_numbers(
    batch: DocumentBatch, columns: Sequence[str]
) -> list[str | None]:
    """Returns rejection reasons per document; labels must be finite float32 numbers.

    Args:
        batch: The documents.
        columns: The required columns, including the label.
    """
    reasons = reasons_against(batch, columns)
    for row, label in enumerate(batch.values("label")):
        if not math.isfinite(as_number(label)):
            reasons[row] = reasons[row] or (
                f"label {excerpt(label)!r} is not a finite number"
            )
    return reasons


def as_number(label: str) -> float:
    """Parses a label as float32; NaN if it is not a number.

    Example:
    >>> as_number(" 4.25 "), as_number("4,25"), as_number("1e99")
    (4.25, nan, inf)
    """
    try:
        # Underscores in numbers are a feature of Python alone.
        number = math.nan if "_" in label else float(label)
    except ValueError:
        return math.nan
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def usable_rows(batch: DocumentBatch, reasons: Sequence[str | None]) -> np.ndarray:
    """Returns the usable documents' row indices, int64, in the order of their keys."""
    by_key = np.argsort(batch.keys, kind="stable")
    return by_key[np.array([reasons[row] is None for row in by_key], np.bool_)]


def rejected_rows(reasons: Sequence[str | None]) -> list[tuple[int, str]]:
    """Returns the unusable rows with their reasons, for `Records.rejected`."""
    return [(row, reason) for row, reason in enumerate(reasons) if reason is not None]


def label_ids(batch: DocumentBatch, labels: Sequence[str]) -> np.ndarray:
    """Returns the index of each document's label in `labels`, int32 (D,)."""
    places = {label: place for place, label in enumerate(labels)}
    return np.array([places[label] for label in batch.values("label")], np.int32)


def label_numbers(batch: DocumentBatch) -> np.ndarray:
    """Returns the number in each document's label, float32 (D,)."""
    return np.array([as_number(label) for label in batch.values("label")], np.float32)


def token_counts(tokenizer: Tokenizer, *contents: TokenRows) -> dict[str, int]:
    """Counts the ordinary tokens of the records, and the unknown ones among them."""
    unknown = tokenizer.special.unknown
    return {
        "tokens": sum(len(content.ids) for content in contents),
        "unknown_tokens": 0
        if unknown is None
        else sum(int(np.sum(content.ids == unknown)) for content in contents),
    }


def one_per_record(rows: np.ndarray) -> DocumentPositions:
    """Places each document at the start of a record of its own, in row order."""
    return DocumentPositions(np.arange(len(rows)), rows, np.zeros(len(rows), np.int64))
