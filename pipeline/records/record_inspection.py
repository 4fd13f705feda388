"""`transbeam data --inspect`: prints records in readable form.

    train-00000-00, record 0: 126 tokens of 3 documents
      from  numpy/__init__.py:12, numpy/core.py:40, numpy/ma.py:7
      token_ids  [CLS] the shape of [MASK]{the} array [SEP] ‖ [CLS] …

A target token is in braces, after the token that replaces it in the input.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import tensorflow as tf

from transbeam.pipeline.records.document_unpacking import split_documents
from transbeam.pipeline.records.manifest import Manifest
from transbeam.pipeline.records.shard_writer import provenance_path
from transbeam.pipeline.records.tf_example import parse_records

NEXT_DOCUMENT = "‖"


def inspect_records(
    manifest: Manifest,
    pieces: Sequence[str],
    split: str,
    count: int,
    labels: Sequence[str] = (),
) -> Iterator[str]:
    """Yields descriptions of the first records of a split, a few lines each.

    Args:
        manifest: The records.
        pieces: The tokenizer's pieces in the order of their ids.
        split: `"train"` or `"validation"`.
        count: The number of records.
        labels: The names of the classes or tags, if the objective has any.

    Raises:
        ArtifactError: The split has no record, or a file is damaged.
    """
    yield from islice(_records(manifest, pieces, split, labels), count)


def _records(
    manifest: Manifest, pieces: Sequence[str], split: str, labels: Sequence[str]
) -> Iterator[str]:
    for shard in manifest.split(split):
        name = Path(shard.path).name.split(".")[0]
        origins = _origins(manifest.folder, name)
        dataset = tf.data.TFRecordDataset(
            str(manifest.folder / shard.path), compression_type=shard.compression
        )
        for number, batch in enumerate(dataset.batch(1)):
            parsed = parse_records(batch, manifest.features_of(shard))
            record = {key: value.numpy()[0] for key, value in parsed.items()}
            where = ", ".join(origins.get(number, []))
            lines = [f"{name}, record {number}", f"from  {where}"]
            lines += describe(record, pieces, labels)
            yield "\n  ".join(lines)


def _origins(folder: Path, name: str) -> dict[int, list[str]]:
    """Returns source and offset of the documents of each record of a shard."""
    table = pq.read_table(provenance_path(folder, name))
    origins: dict[int, list[str]] = {}
    for row in table.select(["record", "source", "offset"]).to_pylist():
        origin = f"{row['source']}:{row['offset']}"
        origins.setdefault(row["record"], []).append(origin)
    return origins


def describe(
    record: Mapping[str, np.ndarray],
    pieces: Sequence[str],
    labels: Sequence[str] = (),
) -> list[str]:
    """Describes a record, with one line for each array that is useful to readers.

    Example:
    >>> pieces = ["[PAD]", "[MASK]", "big", "cat", "sat"]
    >>> record = {
    ...     "token_ids": np.array([2, 1, 4, 0]),
    ...     "document_ids": np.array([1, 1, 2, 0]),
    ...     "masked_positions": np.array([1, 0]),
    ...     "masked_ids": np.array([3, 0]),
    ...     "masked_weights": np.array([1.0, 0.0]),
    ... }
    >>> describe(record, pieces)
    ['token_ids  big [MASK]{cat} ‖ sat']
    >>> describe({"label": np.array(1)}, pieces, labels=("calm", "cross"))
    ['label  1 cross']
    >>> describe({"label": np.array([1, 1])}, pieces, labels=("calm", "cross"))
    ['label  calm, cross']
    >>> tagged = {
    ...     "label_ids": np.array([0, 1, 0, 0]),
    ...     "label_weights": np.array([0, 1.0, 1.0, 0]),
    ... }
    >>> describe(tagged, pieces, labels=("O", "B-PER"))
    ['label_ids  B-PER O']
    >>> pair = {
    ...     "token_ids": np.array([[2, 3, 0], [4, 0, 0]]),
    ...     "document_ids": np.array([[1, 1, 0], [2, 0, 0]]),
    ... }
    >>> describe(pair, pieces)
    ['token_ids  big cat ‖ sat']
    """
    lines = []
    for name, values in record.items():
        if name.endswith("token_ids"):
            shown: list[str] = [pieces[int(i)] for i in values.reshape(-1)]
            if name == "token_ids":
                _mark_targets(shown, record, pieces)
            documents = record.get(name.replace("token_ids", "document_ids"))
            lines.append(f"{name}  {_joined(shown, documents)}")
        elif name == "target_ids":
            weights = record["target_weights"]
            words = [pieces[int(i)] for i in values[weights > 0]]
            lines.append(f"{name}  {' '.join(words)}")
        elif name == "label" and labels and values.ndim:
            applying = [labels[int(i)] for i in np.flatnonzero(values)]
            lines.append(f"{name}  {', '.join(applying) or '(none)'}")
        elif name == "label" and labels:
            lines.append(f"{name}  {values} {labels[int(values)]}")
        elif name == "label_ids":
            tags = [labels[int(i)] for i in values[record["label_weights"] > 0]]
            lines.append(f"{name}  {' '.join(tags)}")
        elif values.ndim == 0:
            lines.append(f"{name}  {values}")
        elif not name.endswith(_SAID_ELSEWHERE):
            abridged = np.array2string(values.reshape(-1), threshold=16, edgeitems=8)
            lines.append(f"{name}  {abridged}")
    return lines


# Shown with the tokens, or not useful to readers.
_SAID_ELSEWHERE = (
    "document_ids",
    "position_ids",
    "masked_positions",
    "masked_ids",
    "_weights",
)


def _mark_targets(
    shown: list[str], record: Mapping[str, np.ndarray], pieces: Sequence[str]
) -> None:
    if "masked_positions" not in record:
        return
    used = record["masked_weights"] > 0
    positions, targets = record["masked_positions"][used], record["masked_ids"][used]
    for position, piece in zip(positions, targets, strict=True):
        shown[position] += f"{{{pieces[piece]}}}"


def _joined(shown: Sequence[str], documents: np.ndarray | None) -> str:
    if documents is None:
        return " ".join(shown)
    texts = [
        " ".join(shown[int(i)] for i in part) for part in split_documents(documents)
    ]
    return f" {NEXT_DOCUMENT} ".join(texts)
