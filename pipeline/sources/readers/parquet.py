"""Reads Apache Parquet tables: selected columns only, a few rows at a time.

A row's offset is its number in the file, counted from 0.
"""

import io
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from transbeam.configs.base.errors import DataError
from transbeam.configs.base.reflection import did_you_mean
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.table_sources import ParquetSourceConfig
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Item,
    Rejected,
    SourceFile,
    Span,
)
from transbeam.pipeline.sources.files.file_access import open_seekable
from transbeam.pipeline.sources.readers.table_rows import row_document

_ROWS_AT_ONCE = 1024
_MARK = b"PAR1"  # magic bytes at both ends of a file
_DAMAGE = (pa.ArrowException, OSError)


def read(span: Span, source: ParquetSourceConfig) -> Iterator[Item]:
    """Yields a document per row; a damaged row group is one `Rejected`.

    Raises:
        BrokenFile: The file is truncated or not Parquet.
        DataError: A column is missing.
    """
    name = span.file.name
    with open_seekable(span.file) as stream:
        try:
            # `pre_buffer` would load a whole row group into memory.
            table = pq.ParquetFile(stream, pre_buffer=False)
        except _DAMAGE as error:
            raise BrokenFile(
                "truncated or damaged Parquet file",
                _first_line(error),
                unread=span.size,
                doubtful=_is_cut(stream),
            ) from error
        with table:
            wanted = _top_level(source.columns, table.schema_arrow.names, name)
            first = 0
            for group in range(table.num_row_groups):
                yield from _row_group(table, group, first, wanted, source, span.file)
                first += table.metadata.row_group(group).num_rows


def _row_group(
    table: pq.ParquetFile,
    group: int,
    first: int,
    wanted: list[str],
    source: ParquetSourceConfig,
    file: SourceFile,
) -> Iterator[Item]:
    """Yields the rows of a row group; `first` is the number of its first row."""
    row, name, size = first, file.name, file.size
    try:
        for batch in table.iter_batches(
            _ROWS_AT_ONCE, row_groups=[group], columns=wanted
        ):
            for values in _python_rows(batch):
                if isinstance(values, str):
                    yield Rejected(values, name, row, "")
                else:
                    yield row_document(values, source.columns, name, row)
                row += 1
    except _DAMAGE as error:
        if "decrypt" in str(error):
            what = f"write it again without encryption; {_first_line(error)}"
            raise BrokenFile("encrypted Parquet column", what, first) from error
        # The sizes of the columns are not read: with a damaged footer or encrypted
        # columns, that would abort the process.
        lost = max(first + table.metadata.row_group(group).num_rows - row, 0)
        share = min(lost / max(table.metadata.num_rows, 1), 1.0)
        yield Rejected(
            "damaged Parquet row group",
            name,
            row,
            f"row group {group}, {lost} rows from here: {_first_line(error)}",
            unread=round(size * share),
        )


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _is_cut(stream: BinaryIO) -> bool:
    """Returns whether a file begins, but does not end, with Parquet's magic bytes."""
    stream.seek(0)
    begin = stream.read(len(_MARK))
    stream.seek(0, io.SEEK_END)
    stream.seek(max(stream.tell() - len(_MARK), 0))
    return _MARK.startswith(begin) and stream.read() != _MARK


def _python_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | str]:
    """Yields each row or, if a value of the row is unreadable, the reason."""
    try:
        rows = batch.to_pylist()
    except (ValueError, OverflowError):
        for row in range(len(batch)):
            try:
                yield batch.slice(row, 1).to_pylist()[0]
            except UnicodeDecodeError:  # contrary to the schema
                yield "not UTF-8"
            except (ValueError, OverflowError):
                yield "a date or time that Python cannot hold"
    else:
        yield from rows


def _top_level(columns: ColumnsConfig, known: list[str], name: str) -> list[str]:
    """Returns the top-level columns that contain the selected columns."""
    wanted: dict[str, None] = {}
    for column in columns.names():
        outer = column if column in known else column.partition(".")[0]
        if known.count(outer) != 1:
            found = "two columns" if outer in known else "no column"
            raise DataError(
                f"{name}: {found} {column!r}, though data.source.columns names "
                f"it. Its columns: {', '.join(known)}.{did_you_mean(column, known)}"
            )
        wanted[outer] = None
    return list(wanted)
