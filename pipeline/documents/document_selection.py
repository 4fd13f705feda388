"""Selects a document part's documents for each split; drops and repeats documents."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.documents.randomness import stage_key, uniform
from transbeam.pipeline.documents.step_markers import (
    DocumentPart,
    documents_path,
    is_done,
    read_state,
)


@dataclass(frozen=True)
class SelectedDocuments:
    """The documents of a document part that are used, by split.

    Attributes:
        splits: The documents of each split; copies of a document are adjacent.
        documents: The number of different documents of each split.
        left_out: The number of training documents that are dropped by their source's
            weight.
        size: The size of all documents of the part in bytes; see `DocumentBatch.sizes`.
        dropped: The size in bytes of the documents that are in neither split.
    """

    splits: dict[Split, DocumentBatch]
    documents: dict[Split, int]
    left_out: int
    size: int
    dropped: int


def select_documents(
    folder: Path, part: DocumentPart, config: RunConfig
) -> SelectedDocuments:
    """Selects the documents of a document part for each split.

    A training document is repeated as often as its source's weight; a fractional weight
    is randomly rounded up or down for each document. A validation document occurs once.
    """
    batch = DocumentBatch.load(documents_path(folder, part))
    rows = _rows(batch.keys, folder, part, config)
    train, validation = batch.take(rows["train"]), batch.take(rows["validation"])
    copies = _copies(train.keys, part.weight, config.seed)
    left_out = int(np.sum(copies == 0))
    sizes = batch.sizes()
    used = np.concatenate([rows["train"][copies > 0], rows["validation"]])
    return SelectedDocuments(
        {"train": train.with_copies(copies), "validation": validation},
        {"train": len(train) - left_out, "validation": len(validation)},
        left_out,
        int(sizes.sum()),
        int(sizes.sum() - sizes[used].sum()),
    )


def select_rows(
    keys: np.ndarray, folder: Path, part: DocumentPart, config: RunConfig
) -> dict[Split, np.ndarray]:
    """Finds the documents of a document part that are used in each split.

    Args:
        keys: uint64 (D,), the documents' hashes.
        folder: The job's folder.
        part: The document part that contains the documents.
        config: The run's configuration.

    Returns:
        Row indices, ascending.
    """
    rows = _rows(keys, folder, part, config)
    copies = _copies(keys[rows["train"]], part.weight, config.seed)
    return {**rows, "train": rows["train"][copies > 0]}


def _rows(
    keys: np.ndarray, folder: Path, part: DocumentPart, config: RunConfig
) -> dict[Split, np.ndarray]:
    """Returns the row indices of each split, without dropped duplicates."""
    keep = np.ones(len(keys), np.bool_)
    if is_done(folder, "duplicates", part.name):
        dropped = read_state(folder, "duplicates", part.name)
        keep[dropped["exact"] + dropped["near"]] = False
    held_out = is_validation(keys, part, config.data)
    return {
        "train": np.flatnonzero(keep & ~held_out),
        "validation": np.flatnonzero(keep & held_out),
    }


def is_validation(keys: np.ndarray, part: DocumentPart, data: DataConfig) -> np.ndarray:
    """Returns a mask of a document part's validation documents.

    If there is a `validation_source`, exactly its documents are validation documents.

    Args:
        keys: uint64 (D,), the documents' hashes.
        part: The document part that contains the documents.
        data: The `data` section of the configuration.

    Returns:
        bool (D,).
    """
    if data.validation_source:
        return np.full(len(keys), part.held_out)
    return in_validation(keys, data.validation_fraction)


def in_validation(keys: np.ndarray, fraction: float) -> np.ndarray:
    """Returns a mask of the validation documents, determined by document keys alone.

    Equal documents are in the same split, and a document stays in its split as the
    corpus grows.

    Args:
        keys: uint64 (D,).
        fraction: The share of validation documents.

    Returns:
        bool (D,).

    Example:
    >>> in_validation(np.array([0, 2**64 - 1], np.uint64), 0.05)
    array([ True, False])
    """
    return keys < np.uint64(fraction * 2.0**64)


def _copies(keys: np.ndarray, weight: float, seed: int) -> np.ndarray:
    draw = uniform(stage_key(seed, "mixture"), keys, np.zeros(1, np.int64))
    return (np.floor(weight) + (draw < weight % 1.0)).astype(np.int64)
