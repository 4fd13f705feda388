"""Writes the files of a shard atomically: its records and their provenance.

The provenance table has one row for each document, or part of a document, in a record.
The provenance is stored in a separate Parquet file, because the records are read in
every epoch and the provenance only for inspection.
"""

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from transbeam.configs.base.atomic_files import write_atomically, writing
from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.records.features import DocumentPositions
from transbeam.pipeline.records.manifest import Shard, sha256

_OPTIONS = {"none": None, "gzip": "GZIP"}


def write_shard(
    folder: Path,
    path: str,
    split: str,
    records: Iterable[bytes],
    compression: Literal["none", "gzip"] = "none",
) -> Shard:
    """Writes records to a temporary file and renames it at the end.

    The same records with the same compression result in the same bytes.

    Raises:
        ArtifactError: The disk is full or the folder cannot be written.
    """
    final = folder / path
    with writing(final):
        final.parent.mkdir(parents=True, exist_ok=True)
    # A unique name even for another attempt at the same shard: an engine may start one
    # while the first is still running, on another machine or in this process.
    temporary = final.with_name(f".{final.name}.{uuid.uuid4().hex}.tmp")
    count = 0
    try:
        with (
            _tensorflow_errors(final),
            tf.io.TFRecordWriter(str(temporary), _OPTIONS[compression]) as writer,
        ):
            for record in records:
                writer.write(record)
                count += 1
        with writing(final):
            with open(temporary, "rb") as stream:
                os.fsync(stream.fileno())
            size = temporary.stat().st_size
            shard = Shard(path, split, count, size, sha256(temporary))
            os.replace(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)
    return shard


@contextmanager
def _tensorflow_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError as error:
        raise ArtifactError(
            f"{path}: cannot be written: {error.message}. Free some space or choose "
            "another folder with --run, then run the same command again"
        ) from error


def provenance_path(folder: Path, name: str) -> Path:
    """Returns the path of a shard's provenance."""
    return folder / f"provenance/{name}.parquet"


def write_provenance(
    folder: Path, name: str, batch: DocumentBatch, placement: DocumentPositions
) -> None:
    """Writes the record, source, source offset and first token of each chunk."""
    origin = batch.table.select(["source", "offset"])
    table = origin.take(pa.array(placement.document))
    table = table.add_column(0, "record", pa.array(placement.record.astype("int32")))
    table = table.append_column("token", pa.array(placement.offset))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    path = provenance_path(folder, name)
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, sink.getvalue().to_pybytes())
