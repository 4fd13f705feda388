"""What the objectives with labelled documents share."""

import math
from collections.abc import Sequence

import numpy as np

from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.documents.rejection import excerpt
from transbeam.pipeline.records.features import Feature
from transbeam.pipeline.records.record_set import Placement
from transbeam.pipeline.records.token_rows import TokenRows
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def label_feature(labels: Sequence[str]) -> Feature:
    """One class for each record."""
    return Feature("label", "int32", (), f"the class: a place in {list(labels)}")


def number_feature() -> Feature:
    """One number for each record."""
    return Feature("label", "float32", (), "the number that is right")


def reasons_against(
    batch: DocumentBatch, columns: Sequence[str], labels: Sequence[str] | None = None
) -> list[str | None]:
    """Why each document is not what an objective needs; None for one that is.

    Args:
        batch: The documents.
        columns: What a document must have.
        labels: What its label may be, where it needs one.
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
    """The same where a label is to be a number, which float32 can hold.

    Args:
        batch: The documents.
        columns: What a document must have, the label among them.
    """
    reasons = reasons_against(batch, columns)
    for row, label in enumerate(batch.values("label")):
        if not math.isfinite(as_number(label)):
            reasons[row] = reasons[row] or (
                f"label {excerpt(label)!r} is not a finite number"
            )
    return reasons


def as_number(label: str) -> float:
    """What a label says, in float32; not a number if it says something else.

    Example:
    >>> as_number(" 4.25 "), as_number("4,25"), as_number("1e99")
    (4.25, nan, inf)
    """
    try:
        # Underscores are Python's own way to write numbers.
        number = math.nan if "_" in label else float(label)
    except ValueError:
        return math.nan
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def usable_rows(batch: DocumentBatch, reasons: Sequence[str | None]) -> np.ndarray:
    """int64. The rows without a reason against them, by key: not by arrival."""
    by_key = np.argsort(batch.keys, kind="stable")
    return by_key[np.array([reasons[row] is None for row in by_key], np.bool_)]


def rejected_rows(reasons: Sequence[str | None]) -> list[tuple[int, str]]:
    """The rows with a reason against them, as `Records.rejected` has them."""
    return [(row, reason) for row, reason in enumerate(reasons) if reason is not None]


def label_ids(batch: DocumentBatch, labels: Sequence[str]) -> np.ndarray:
    """int32 (D,). The place of each document's label, which must be one of them."""
    places = {label: place for place, label in enumerate(labels)}
    return np.array([places[label] for label in batch.values("label")], np.int32)


def label_numbers(batch: DocumentBatch) -> np.ndarray:
    """float32 (D,). The number that each document's label says."""
    return np.array([as_number(label) for label in batch.values("label")], np.float32)


def token_counts(tokenizer: Tokenizer, *contents: TokenRows) -> dict[str, int]:
    """How many tokens that are not special the records have, and how many unknown."""
    unknown = tokenizer.special.unknown
    return {
        "tokens": sum(len(content.ids) for content in contents),
        "unknown_tokens": 0
        if unknown is None
        else sum(int(np.sum(content.ids == unknown)) for content in contents),
    }


def one_each(rows: np.ndarray) -> Placement:
    """Each document whole in a record of its own, in the order of the rows."""
    return Placement(np.arange(len(rows)), rows, np.zeros(len(rows), np.int64))
