"""The record contract: the features of a training record, and records as arrays.

The data job writes these features, the manifest lists them, and before the first
training step the trainer compares them with the features that it requires. The features
are the only interface between pipeline and model.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class Feature:
    """One named array of fixed shape in every record.

    Attributes:
        name: Key in the `tf.train.Example`, and name of the model input.
        dtype: `"int32"` (stored as an int64 list), `"float32"`, or `"uint8"` (stored
            as one string of bytes).
        shape: Shape of one record's value.
        meaning: A human-readable description.
    """

    name: str
    dtype: Literal["int32", "float32", "uint8"]
    shape: tuple[int, ...]
    meaning: str

    def as_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "shape": list(self.shape)}


def from_json(rows: Sequence[Mapping[str, Any]]) -> tuple[Feature, ...]:
    """Reads the features from a manifest."""
    return tuple(
        Feature(row["name"], row["dtype"], tuple(row["shape"]), row["meaning"])
        for row in rows
    )


def differences(found: Sequence[Feature], expected: Sequence[Feature]) -> list[str]:
    """Describes the differences between found and expected features.

    Example:
    >>> short = Feature("token_ids", "int32", (64,), "ids of pieces")
    >>> long = Feature("token_ids", "int32", (128,), "ids of pieces")
    >>> differences([short], [long])
    ['token_ids: int32 (64,) there, int32 (128,) expected']
    """
    there = {feature.name: feature for feature in found}
    here = {feature.name: feature for feature in expected}

    def kind(feature: Feature | None) -> str:
        return "nothing" if feature is None else f"{feature.dtype} {feature.shape}"

    return [
        f"{name}: {kind(there.get(name))} there, {kind(here.get(name))} expected"
        for name in dict.fromkeys([*here, *there])
        if kind(there.get(name)) != kind(here.get(name))
    ]


def check_arrays(arrays: Mapping[str, np.ndarray], features: Sequence[Feature]) -> None:
    """Checks that arrays of records `(records, *shape)` match the features.

    Raises:
        ValueError: An array is missing, unknown, or of another dtype or shape; this is
            a bug in the objective, not an error of the user.
    """
    if set(arrays) != {feature.name for feature in features}:
        raise ValueError(f"arrays {sorted(arrays)} do not match the record contract")
    for feature in features:
        array = arrays[feature.name]
        if array.dtype != feature.dtype or array.shape[1:] != feature.shape:
            raise ValueError(
                f"{feature.name}: {array.dtype} {array.shape[1:]}, "
                f"expected {feature.dtype} {feature.shape}"
            )


@dataclass(frozen=True)
class DocumentPositions:
    """The positions of documents in records: one row per part of a document.

    Attributes:
        record: int64 (P,). The index of the part's record in the arrays; ascending.
        document: int64 (P,). The index of the part's document in the batch.
        offset: int64 (P,). The index of the part's first token within the document.
    """

    record: np.ndarray
    document: np.ndarray
    offset: np.ndarray


@dataclass(frozen=True)
class Records:
    """Training records, the documents in each record, and counts of unused documents.

    Attributes:
        arrays: The arrays of the features, each (records, ...).
        placement: The positions of the documents that are in the records; other
            documents are in `rejected` or `filtered`, or had no token.
        lengths: int64 (records,). The number of tokens of each record without padding.
        counts: Counts for the manifest, such as `tokens`, `unknown_tokens`,
            `truncated_tokens`, `padding`, `predictions`, `empty_documents`.
        rejected: Row in the batch and reason of each document that the objective
            rejects; these documents are quarantined.
        filtered: Row in the batch and reason of each valid document that the objective
            does not use; these documents are only counted.
    """

    arrays: dict[str, np.ndarray]
    placement: DocumentPositions
    lengths: np.ndarray
    counts: dict[str, int]
    rejected: list[tuple[int, str]] = field(default_factory=list)
    filtered: list[tuple[int, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lengths)
