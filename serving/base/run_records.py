"""Iterates over the TFRecords that the data job wrote to a run's folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import tensorflow as tf

from transbeam.pipeline.records.document_unpacking import split_documents

Split = Literal["train", "validation"]
Record = dict[str, np.ndarray]


def records(run_folder: Path, split: Split) -> Iterator[Record]:
    """Yields the features (N,) of each record: int32, float32, or uint8 for images."""
    for file in sorted(run_folder.glob(f"data/records/{split}-*.tfrecord*")):
        compression = "GZIP" if file.suffix == ".gz" else ""
        for serialized in tf.data.TFRecordDataset(str(file), compression):
            example = tf.train.Example.FromString(serialized.numpy())
            features = example.features.feature
            yield {name: _array(value) for name, value in features.items()}


def documents(
    run_folder: Path,
    prefix: str = "",
    *,
    split: Split = "validation",
    feature: str = "token_ids",
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields token ids (T,) and segment ids (T,) per document, splitting packed rows.

    Args:
        run_folder: Contains the records.
        prefix: The prefix of feature names: `encoder_` or `decoder_`, for
            encoder-decoder models.
        split: The split to read.
        feature: The feature to yield in place of token ids.
    """
    for record in records(run_folder, split):
        token_ids = record[f"{prefix}{feature}"]
        segments = record.get("segment_ids", np.zeros_like(token_ids))
        for indices in split_documents(record[f"{prefix}document_ids"]):
            yield token_ids[indices], segments[indices]


def _array(feature: tf.train.Feature) -> np.ndarray:
    match feature.WhichOneof("kind"):
        case "int64_list":
            return np.array(feature.int64_list.value, np.int32)
        case "float_list":
            return np.array(feature.float_list.value, np.float32)
        case _:
            return np.frombuffer(b"".join(feature.bytes_list.value), np.uint8)
