"""Records as a data job leaves them, of a few features."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf


def write_records(
    run_folder: Path, split: str, records: Iterable[Mapping[str, Any]]
) -> None:
    """Writes a split's records, and takes those away that were there.

    Args:
        run_folder: Of the run.
        split: `train` or `validation`.
        records: Numbers, rows of numbers, or bytes by the feature's name.
    """
    folder = run_folder / "data/records"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{split}-*"):
        old.unlink()
    with tf.io.TFRecordWriter(str(folder / f"{split}-00000.tfrecord")) as writer:
        for record in records:
            writer.write(_example(record).SerializeToString())


def _example(record: Mapping[str, Any]) -> tf.train.Example:
    example = tf.train.Example()
    for name, value in record.items():
        feature = example.features.feature[name]
        if isinstance(value, bytes):
            feature.bytes_list.value.append(value)
            continue
        row = np.atleast_1d(value)
        if np.issubdtype(row.dtype, np.floating):
            feature.float_list.value.extend(row)
        else:
            feature.int64_list.value.extend(row)
    return example
