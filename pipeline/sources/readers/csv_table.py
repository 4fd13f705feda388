r"""Reads tables of delimited fields: CSV, TSV and similar formats.

With `quoting: auto` a field may be in double quotes and then contain any characters,
including line ends; a quote inside is doubled (RFC 4180). Some files violate this rule:
an unclosed quote would merge all rows up to the next quote, or to the end of the file,
into one field. Therefore parsing is strict, with backtracking: the first line of a row
with broken quotes is rejected, and reading continues with the next line. A row whose
number of fields differs from the first row is rejected. Rejected lines and rows are
counted, so wrong settings are noticed. A last row without a line end that ends inside
quotes or has too few fields shows that the file is truncated.

With `quoting: none` quotes are ordinary characters and a row is a line, so that the
file can be split anywhere.

Blank lines are skipped. The offset of a row is the offset of its first byte.

References:
    - [RFC 4180](https://www.rfc-editor.org/rfc/rfc4180)
"""

import csv
import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from transbeam.configs.base.errors import DataError
from transbeam.configs.base.reflection import did_you_mean
from transbeam.configs.schema.table_sources import CsvSourceConfig
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Item,
    Rejected,
    Span,
    excerpt,
)
from transbeam.pipeline.sources.decoding.text_decoding import Line, lines
from transbeam.pipeline.sources.files.reading_report import report_note
from transbeam.pipeline.sources.readers.table_rows import row_document

# Real documents exceed Python's default limit of 131,072 characters. Without a limit an
# unclosed quote could fill the memory.
_LONGEST_FIELD = 2**27
_DELIMITERS = (",", ";", "\t", "|", ":")

_OPEN_QUOTES = "unexpected end of data"
_REASONS = {
    _OPEN_QUOTES: "broken quotes: never closed",
    "field larger than field limit": "broken quotes: not closed for long",
    "new-line character seen": "a carriage return within a line",
}


@dataclass(frozen=True, slots=True)
class _Row:
    offset: int
    fields: list[str]
    is_open: bool = False


def read(span: Span, source: CsvSourceConfig) -> Iterator[Item]:
    """Yields a document per row that begins in a span.

    Raises:
        BrokenFile: The header cannot be read.
        DataError: A configured column is missing, or its name occurs more than once.
    """
    first = _first_row(span, source)
    width, standard = len(first.fields), "header" if source.header else "first row"
    columns = _names(first.fields, source)
    if first.fields:
        _check_columns(first.fields, source, span.file.name)
    for row in _rows(span, source):
        if isinstance(row, Rejected):
            yield row
        elif source.header and row.offset == first.offset:
            continue
        elif len(row.fields) != width:
            text = source.delimiter.join(row.fields)
            is_cut = row.is_open and len(row.fields) < width
            yield Rejected(
                # One reason for all numbers; the excerpt contains the number.
                "truncated row" if is_cut else f"not as many fields as the {standard}",
                span.file.name,
                row.offset,
                f"{len(row.fields)}, not {width}: {excerpt(text)}",
                len(text),
                doubtful=is_cut,
            )
        else:
            if any(
                _joins_rows(field, column, width, source.delimiter)
                for column, field in enumerate(row.fields)
            ):
                report_note("rows that quotes have joined", span.file.name, _JOINED)
            values = dict(zip(columns, row.fields, strict=True))
            yield row_document(values, source.columns, span.file.name, row.offset)


_JOINED = (
    "a field in quotes holds line ends and as many delimiters a line as a row; if "
    "quotes are ordinary characters here, set data.source.quoting=none"
)


# The first bytes of a zip archive.
_ZIP = "PK\x03\x04"


def _joins_rows(field: str, column: int, width: int, delimiter: str) -> bool:
    r"""Returns whether a field looks like several rows, joined by a stray quote.

    Args:
        field: The text of the field.
        column: The index of the field in its row.
        width: The number of fields per row.
        delimiter: The delimiter of fields.

    Example:
    >>> _joins_rows("Open here\tb\nrow 5\ta\nEnds here", 0, 2, "\t")
    True
    >>> _joins_rows("Open here\na\trow 5\nb\tEnds here", 1, 2, "\t")
    True
    >>> _joins_rows("Dear Ann,\nthank you, and all", 0, 2, ",")
    False
    """
    if "\n" not in field or width < 2:
        return False
    # A delimiter before a space counts as punctuation.
    pattern = re.compile(f"{re.escape(delimiter)}(?! |$)")
    first, *rows, last = [len(pattern.findall(line)) for line in field.split("\n")]
    if column and not rows and delimiter != "\t":
        return False  # two lines with a number such as 1,000 in the second
    ends = first == width - 1 - column and last == column
    return ends and all(count == width - 1 for count in rows)


def _first_row(span: Span, source: CsvSourceConfig) -> _Row:
    """Returns the first row, which determines the number of fields, or an empty row."""
    for row in _rows(replace(span, start=0, end=span.file.size), source):
        if isinstance(row, _Row):
            return row
        if source.header:
            wanted, *_ = source.columns.names()
            hint = _other_delimiter(wanted, [row.excerpt.strip()], source)
            shown = row.excerpt.strip() + hint
            raise BrokenFile(f"header: {row.reason}", shown, row.offset)
    return _Row(0, [])


def _check_columns(first: list[str], source: CsvSourceConfig, name: str) -> None:
    """Rejects a file whose first row lacks a column; suggests a remedy."""
    columns = _names(first, source)
    for column in source.columns.names():
        if columns.count(column) == 1:
            continue
        if first[0].startswith(_ZIP):
            raise DataError(
                f"{name}: is a zip archive, as workbooks of Excel (.xlsx) are, and no "
                "table of text. Save the sheet as CSV"
            )
        selected = "though data.source.columns names it"
        if column in columns:
            raise DataError(
                f"{name}: two columns {column!r}, {selected}. The columns here: "
                f"{', '.join(columns)}. Rename one of them"
            )
        raise DataError(
            f"{name}: no column {column!r}, {selected}. The "
            f"columns here: {', '.join(columns)}.{did_you_mean(column, columns)}"
            + _other_delimiter(column, first, source)
        )


def _names(row: list[str], source: CsvSourceConfig) -> list[str]:
    return row if source.header else [str(number) for number in range(len(row))]


def _other_delimiter(column: str, first: list[str], source: CsvSourceConfig) -> str:
    """Suggests another delimiter with which the file may have the column."""
    line = source.delimiter.join(first)
    others = [d for d in _DELIMITERS if d != source.delimiter and d in line]
    for other in others:
        fields = [field.strip(' "') for field in line.split(other)]
        if column in _names(fields, source):
            break
    else:
        if len(first) > 1 or not others:
            return ""
        other = others[0]
    row = "header" if source.header else "first row"
    return (
        f" The {row} has {other!r} in it: write data.source.delimiter: "
        + json.dumps(other)
    )


def _rows(span: Span, source: CsvSourceConfig) -> Iterator[_Row | Rejected]:
    if source.quoting == "none":
        for line in lines(span, source.encoding):
            fields = line.content.split(source.delimiter)
            yield from _row([line], fields)
        return
    # The limit is global to the process; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    replay = _Replay(lines(span, source.encoding))
    parser = csv.reader(replay, delimiter=source.delimiter, strict=True)
    while True:
        try:
            fields = next(parser)
        except StopIteration:
            return
        except csv.Error as error:
            line = replay.end_broken_row()
            # An unclosed quote in the very last line.
            is_cut = line.is_open and str(error) == _OPEN_QUOTES
            yield line.rejected or Rejected.from_content(
                "truncated row" if is_cut else _reason(error),
                span.file.name,
                line.offset,
                line.text,
                doubtful=is_cut,
            )
        else:
            yield from _row(replay.end_row(), fields)


def _reason(error: csv.Error) -> str:
    known = (r for start, r in _REASONS.items() if str(error).startswith(start))
    return next(known, "broken quotes: text after a closed one")


def _row(taken: Sequence[Line], fields: list[str]) -> Iterator[_Row | Rejected]:
    """Yields the row that the lines form, or a quarantine entry; nothing if blank."""
    undecodable = next((line.rejected for line in taken if line.rejected), None)
    if undecodable:
        yield undecodable
    elif len(taken) > 1 or taken[0].text.strip(" \r\n"):
        yield _Row(taken[0].offset, fields, taken[-1].is_open)


class _Replay(Iterator[str]):
    """A line iterator with backtracking for the parser.

    Attributes:
        taken: The lines returned since the last row.
    """

    def __init__(self, source: Iterator[Line]) -> None:
        self._source = source
        self._waiting: deque[Line] = deque()
        self.taken: list[Line] = []

    def __next__(self) -> str:
        line = self._waiting.popleft() if self._waiting else next(self._source)
        self.taken.append(line)
        return line.text

    def end_row(self) -> list[Line]:
        """Discards the buffered lines of a complete row."""
        taken, self.taken = self.taken, []
        return taken

    def end_broken_row(self) -> Line:
        """Rewinds to the second line of a broken row; returns the first line."""
        first, *again = self.end_row()
        self._waiting.extendleft(reversed(again))
        return first
