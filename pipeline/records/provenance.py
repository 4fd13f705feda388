"""The provenance of every token of a shard: a Parquet file beside each shard.

One row per document, or part of one, in a record. It is a separate file, because the
records are read in every epoch and the provenance only for inspection.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.records.record_set import Placement


def provenance_path(folder: Path, name: str) -> Path:
    """Returns the path of a shard's provenance."""
    return folder / f"provenance/{name}.parquet"


def write_provenance(
    folder: Path, name: str, batch: DocumentBatch, placement: Placement
) -> None:
    """Writes record, source, offset in the source and first token of each part."""
    origin = batch.table.select(["source", "offset"])
    table = origin.take(pa.array(placement.document))
    table = table.add_column(0, "record", pa.array(placement.record.astype("int32")))
    table = table.append_column("token", pa.array(placement.offset))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    path = provenance_path(folder, name)
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, sink.getvalue().to_pybytes())
