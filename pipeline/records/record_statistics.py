"""Statistics of records: lengths, pieces, documents per record."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.records.features import Records

# The features that contain token ids, as the model reads them.
TOKEN_IDS = ("token_ids", "encoder_token_ids", "decoder_token_ids")


_MOST_LABELS = 10


@dataclass(frozen=True)
class Statistics:
    """Counts over the records of one or more shards.

    Attributes:
        tokens: int64 (V,). The number of occurrences of each vocabulary piece in the
            records.
        lengths: int64. Element i is the number of records with i tokens.
        documents: int64. Element i is the number of records with i chunks (documents or
            parts of documents).
        labels: int64. Element i is the number of occurrences of class or tag i.
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
            vocabulary_size: The number of pieces in the vocabulary.
            pad: The id of padding, which may also be the id of another token; padding
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
        """Saves the statistics of a shard, to be summed over all shards later."""
        sink = io.BytesIO()
        np.savez(sink, **vars(self))
        write_atomically(statistics_path(folder, name), sink.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Statistics":
        """Reads a file that `save` wrote."""
        with np.load(path) as arrays:
            return cls(**arrays)


def statistics_path(folder: Path, name: str) -> Path:
    """Returns the path of a shard's statistics, in the job's temporary folder."""
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


def label_counts(
    config: RunConfig, statistics: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, int]]:
    """Counts the occurrences of each label in the records of each split.

    Args:
        config: The run's configuration.
        statistics: As in `statistics.json`.

    Returns:
        A mapping from split to label to count; empty if the objective has no labels.
    """
    labels: Sequence[str] = getattr(config.objective, "labels", ())
    if not labels:
        return {}
    return {
        split: {
            label: found["label_counts"][place]
            if place < len(found["label_counts"])
            else 0
            for place, label in enumerate(labels)
        }
        for split, found in statistics.items()
    }


def missing_labels(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Returns warnings about labels that never occur.

    Example:
    >>> missing_labels({"train": {"a": 3, "b": 0}, "validation": {"a": 1, "b": 0}})
    ["objective.labels: training has no example of 'b'. Fix the corpus, or take out \
what cannot be learned"]
    >>> missing_labels({"train": {"a": 3, "b": 1}, "validation": {"a": 1, "b": 0}})
    ["objective.labels: validation has no example of 'b'. Hold out more, or its scores \
say nothing of that"]
    """
    remedies = {
        "train": "Fix the corpus, or take out what cannot be learned",
        "validation": "Hold out more, or its scores say nothing of that",
    }
    warnings: list[str] = []
    listed: set[str] = set()
    for split, of_split in counts.items():
        never = [x for x, number in of_split.items() if not number and x not in listed]
        listed.update(never)
        if never:
            name = "training" if split == "train" else split
            shown = ", ".join(map(repr, never[:_MOST_LABELS])) + ", …" * (
                len(never) > _MOST_LABELS
            )
            warnings.append(
                f"objective.labels: {name} has no example of {shown}. {remedies[split]}"
            )
    return warnings
