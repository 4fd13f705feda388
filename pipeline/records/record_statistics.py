"""What the records look like as numbers: lengths, pieces, documents per record."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.pipeline.records.record_set import Records

# The arrays of the record contracts that hold ids of pieces, as the model reads them.
TOKEN_IDS = ("token_ids", "encoder_token_ids", "decoder_token_ids")


@dataclass(frozen=True)
class Statistics:
    """Counts over the records of one or more shards.

    Attributes:
        tokens: int64 (V,). How often each piece stands in the records.
        lengths: int64. At i, the records with i tokens.
        documents: int64. At i, the records with i documents or stretches of one.
        labels: int64. At i, how often class or tag i is asked for.
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
            pad: The id of padding, which may also be that of a piece; the places that
                are padding are not counted.
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
        """Keeps the counts of a shard until all are added up."""
        sink = io.BytesIO()
        np.savez(sink, **vars(self))
        write_atomically(statistics_path(folder, name), sink.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Statistics":
        """Reads what `save` wrote."""
        with np.load(path) as arrays:
            return cls(**arrays)


def statistics_path(folder: Path, name: str) -> Path:
    """Where the counts of a shard lie while the job runs."""
    return folder / f"state/statistics-{name}.npz"


def _labels(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Every class or tag that is asked for: int, flat; none where there are none."""
    if "label_ids" in arrays:
        return arrays["label_ids"][arrays["label_weights"] > 0]
    label = arrays.get("label", np.zeros(0, np.int32))
    return label if label.dtype.kind == "i" else label[:0].astype(np.int32)


def _added(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    total = np.zeros(max(len(one), len(other)), np.int64)
    total[: len(one)] += one
    total[: len(other)] += other
    return total


def summary(total: Statistics, pieces: Sequence[str], most: int = 40) -> dict[str, Any]:
    """The numbers of a split for `statistics.json` and the card."""
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
