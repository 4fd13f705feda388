"""Statistics of records: lengths, pieces, documents per record."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.pipeline.records.record_set import Records

# The features that contain token ids, as the model reads them.
TOKEN_IDS = ("token_ids", "encoder_token_ids", "decoder_token_ids")


@dataclass(frozen=True)
class Statistics:
    """Counts over the records of one or more shards.

    Attributes:
        tokens: int64 (V,). The occurrences of each piece in the records.
        lengths: int64. At i, the number of records with i tokens.
        documents: int64. At i, the number of records with i documents or parts of one.
        labels: int64. At i, the occurrences of class or tag i.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    documents: np.ndarray
    labels: np.ndarray

    @classmethod
    def from_records(
        cls, records: Records, vocabulary_size: int, pad: int
    ) -> "Statistics":
        """Counts the records of a shard.

        Args:
            records: The records.
            vocabulary_size: The number of pieces.
            pad: The id of padding, which may also be that of another token; padding
                positions are not counted.
        """
        ids = [records.arrays[name] for name in TOKEN_IDS if name in records.arrays]
        tokens = np.zeros(vocabulary_size, np.int64)
        for array in ids:
            tokens += np.bincount(array.reshape(-1), minlength=vocabulary_size)
        if ids:
            tokens[pad] -= sum(array.size for array in ids) - records.lengths.sum()
        per_record = np.bincount(records.placement.record, minlength=len(records))
        return cls(
            tokens,
            np.bincount(records.lengths),
            np.bincount(per_record),
            np.bincount(_labels(records.arrays)),
        )

    def __add__(self, other: "Statistics") -> "Statistics":
        return Statistics(
            _added(self.tokens, other.tokens),
            _added(self.lengths, other.lengths),
            _added(self.documents, other.documents),
            _added(self.labels, other.labels),
        )

    def save(self, folder: Path, name: str) -> None:
        """Saves the statistics of a shard until all are summed."""
        sink = io.BytesIO()
        np.savez(sink, **vars(self))
        write_atomically(statistics_path(folder, name), sink.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Statistics":
        """Reads a file of `save`."""
        with np.load(path) as arrays:
            return cls(**arrays)


def statistics_path(folder: Path, name: str) -> Path:
    """Returns the path of a shard's statistics while the job runs."""
    return folder / f"state/statistics-{name}.npz"


def _labels(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns all target classes or tags as a flat int array; empty without labels."""
    if "label_ids" in arrays:
        return arrays["label_ids"][arrays["label_weights"] > 0]
    label = arrays.get("label", np.zeros(0, np.int32))
    if label.ndim == 2:  # sets of labels, 1 for each that applies
        return np.nonzero(label)[1]
    return label if label.dtype.kind == "i" else label[:0].astype(np.int32)


def _added(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    total = np.zeros(max(len(one), len(other)), np.int64)
    total[: len(one)] += one
    total[: len(other)] += other
    return total


def summary(total: Statistics, pieces: Sequence[str], most: int = 40) -> dict[str, Any]:
    """Returns the statistics of a split for `statistics.json` and the dataset card."""
    ranked = np.argsort(-total.tokens, kind="stable")[:most]
    return {
        "lengths": total.lengths.tolist(),
        "documents": total.documents.tolist(),
        "label_counts": total.labels.tolist(),
        "token_counts": total.tokens.tolist(),
        "unused_pieces": int(np.sum(total.tokens == 0)),
        "most_frequent": [
            [pieces[i], int(total.tokens[i])] for i in ranked if total.tokens[i]
        ],
    }
