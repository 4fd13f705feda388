"""Where every token of a shard comes from: a Parquet file beside each shard.

One row per stretch of a document in a record. Kept apart, because the records are
read in every epoch and these only by a person who looks for the origin of one.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.records.record_set import Placement


def provenance_path(folder: Path, name: str) -> Path:
    """Where the provenance of a shard lies."""
    return folder / f"provenance/{name}.parquet"


def write_provenance(
    folder: Path, name: str, batch: DocumentBatch, placement: Placement
) -> None:
    """Writes record, source, offset in the source and first token of each stretch."""
    origin = batch.table.select(["source", "offset"])
    table = origin.take(pa.array(placement.document))
    table = table.add_column(0, "record", pa.array(placement.record.astype("int32")))
    table = table.append_column("token", pa.array(placement.offset))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    path = provenance_path(folder, name)
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, sink.getvalue().to_pybytes())
