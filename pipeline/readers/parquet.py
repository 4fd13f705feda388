"""Apache Parquet tables, a few rows at a time, and only the columns asked for.

A row's offset is its number in the file, counted from 0.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from configs.errors import DataError
from configs.schema import did_you_mean
from configs.table_sources import Columns, ParquetSource
from pipeline.documents import Document, Rejected
from pipeline.readers.columns import row_document
from pipeline.readers.files import BrokenFile, open_file
from pipeline.spans import Span

_ROWS_AT_ONCE = 1024


def read(span: Span, source: ParquetSource) -> Iterator[Document | Rejected]:
    """A document for each row.

    Raises:
        BrokenFile: The file is truncated or no Parquet.
        DataError: It has no such column.
    """
    name = span.file.name
    with open_file(span.file) as stream:
        for row, values in enumerate(_rows(stream, source.columns, name)):
            if values is None:
                yield Rejected("not UTF-8", name, row, "")
            else:
                yield row_document(values, source.columns, name, row)


def _rows(stream: Any, columns: Columns, name: str) -> Iterator[dict[str, Any] | None]:
    """Each row; None for one whose text is no UTF-8, against what the file says."""
    try:
        # Without `pre_buffer` a row group is not held in memory as a whole.
        with pq.ParquetFile(stream, pre_buffer=False) as table:
            wanted = _top_level(columns, table.schema_arrow.names, name)
            for batch in table.iter_batches(_ROWS_AT_ONCE, columns=wanted):
                yield from _python_rows(batch)
    except (pa.ArrowException, OSError) as error:
        detail = str(error).partition("\n")[0]
        raise BrokenFile("truncated or damaged Parquet file", detail) from error


def _python_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | None]:
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        for row in range(len(batch)):
            try:
                yield batch.slice(row, 1).to_pylist()[0]
            except UnicodeDecodeError:
                yield None


def _top_level(columns: Columns, known: list[str], name: str) -> list[str]:
    """The columns of the file that hold what is asked for."""
    wanted: dict[str, None] = {}
    for column in columns.names():
        outer = column if column in known else column.partition(".")[0]
        if outer not in known:
            raise DataError(
                f"{name}: no column {column!r}, though data.source.columns asks for "
                f"it. Its columns: {', '.join(known)}.{did_you_mean(column, known)}"
            )
        wanted[outer] = None
    return list(wanted)
