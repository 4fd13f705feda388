"""The documents of a part that are used: by split, without duplicates, with copies."""

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
class Kept:
    """What of a part goes into each split.

    Attributes:
        splits: The documents; copies of one stand side by side.
        documents: How many different documents these are.
        left_out: Training documents that their source's weight leaves out.
        size: Bytes of all documents of the part; see `DocumentBatch.sizes`.
        dropped: Bytes of those that are in neither split.
    """

    splits: dict[Split, DocumentBatch]
    documents: dict[Split, int]
    left_out: int
    size: int
    dropped: int


def kept_documents(folder: Path, part: DocumentPart, config: RunConfig) -> Kept:
    """Takes a part apart into its splits.

    A training document is there as often as its source's weight says, the fraction
    decided by a number drawn for the document; a validation document once.
    """
    batch = DocumentBatch.load(documents_path(folder, part))
    rows = _rows(batch.keys, folder, part, config)
    train, validation = batch.take(rows["train"]), batch.take(rows["validation"])
    copies = _copies(train.keys, part.weight, config.seed)
    left_out = int(np.sum(copies == 0))
    sizes = batch.sizes()
    used = np.concatenate([rows["train"][copies > 0], rows["validation"]])
    return Kept(
        {"train": train.with_copies(copies), "validation": validation},
        {"train": len(train) - left_out, "validation": len(validation)},
        left_out,
        int(sizes.sum()),
        int(sizes.sum() - sizes[used].sum()),
    )


def kept_rows(
    keys: np.ndarray, folder: Path, part: DocumentPart, config: RunConfig
) -> dict[Split, np.ndarray]:
    """Finds the documents of a part that are used in each split.

    Args:
        keys: uint64 (D,), the documents' hashes.
        folder: The job's folder.
        part: The part they are of.
        config: The run.

    Returns:
        Rows, ascending.
    """
    rows = _rows(keys, folder, part, config)
    copies = _copies(keys[rows["train"]], part.weight, config.seed)
    return {**rows, "train": rows["train"][copies > 0]}


def _rows(
    keys: np.ndarray, folder: Path, part: DocumentPart, config: RunConfig
) -> dict[Split, np.ndarray]:
    """The rows of each split that are no duplicates."""
    keep = np.ones(len(keys), np.bool_)
    if is_done(folder, "duplicates", part.name):
        dropped = read_state(folder, "duplicates", part.name)
        keep[dropped["exact"] + dropped["near"]] = False
    held_out = is_held_out(keys, part, config.data)
    return {
        "train": np.flatnonzero(keep & ~held_out),
        "validation": np.flatnonzero(keep & held_out),
    }


def is_held_out(keys: np.ndarray, part: DocumentPart, data: DataConfig) -> np.ndarray:
    """Which documents of a part are for validation.

    Where there is a `validation_source` all that came from it, and no other.

    Args:
        keys: uint64 (D,), the documents' hashes.
        part: The part they are of.
        data: The configuration.

    Returns:
        bool (D,).
    """
    if data.validation_source:
        return np.full(len(keys), part.held_out)
    return in_validation(keys, data.validation_fraction)


def in_validation(keys: np.ndarray, fraction: float) -> np.ndarray:
    """Which documents are held out: by their keys alone, so equal ones never part.

    A document keeps its split as the corpus grows.

    Args:
        keys: uint64 (D,).
        fraction: The share of all keys that is held out.

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
