"""Reads JSON Lines: an object per line, whose fields are the columns.

Blank lines are skipped. Of duplicate fields the last is used. A row's offset is that of
its line. A last line that ends within its object shows that the file is truncated by an
unknown amount. A file with an array of objects, or with objects on several lines, is
supported, too (`json_values`).
"""

import json
from collections.abc import Iterator

from transbeam.configs.schema.table_sources import JsonlSourceConfig
from transbeam.pipeline.documents.document import (
    Document,
    Rejected,
    SourceFile,
    Span,
    excerpt,
)
from transbeam.pipeline.sources.decoding.text_lines import Line, lines
from transbeam.pipeline.sources.readers.json_values import (
    Value,
    ends_early,
    has_values,
    read_values,
)
from transbeam.pipeline.sources.readers.table_rows import row_document


def is_splittable(file: SourceFile, source: JsonlSourceConfig) -> bool:
    """Returns whether each object is a line, so that the file can be split anywhere."""
    return not has_values(file, source.encoding)


def read(span: Span, source: JsonlSourceConfig) -> Iterator[Document | Rejected]:
    """Yields a document per line that begins in a span, or per object of the file."""
    name = span.file.name
    for offset, row in _rows(span, source):
        if isinstance(row, Rejected):
            yield row
        elif isinstance(row, dict):
            yield row_document(row, source.columns, name, offset)
        else:
            text = json.dumps(row, ensure_ascii=False)
            shown = excerpt(text), len(text)
            yield Rejected("not a JSON object", name, offset, *shown)


def _rows(span: Span, source: JsonlSourceConfig) -> Iterator[Value]:
    if span.start == 0 and has_values(span.file, source.encoding):
        return read_values(span.file, source.encoding)
    return _rows_of_lines(span, source)


def _truncated(line: Line, name: str) -> Rejected:
    shown = excerpt(line.text), len(line.text)
    return Rejected("truncated JSON", name, line.offset, *shown, doubtful=True)


def _rows_of_lines(span: Span, source: JsonlSourceConfig) -> Iterator[Value]:
    for line in lines(span, source.encoding):
        if line.rejected:
            yield Value(line.offset, line.rejected)
            continue
        if line.text.isspace():
            continue
        try:
            row = json.loads(line.content)
        except json.JSONDecodeError as error:
            reason = f"not JSON: {error.msg}"
            if line.is_open and ends_early(error):
                yield Value(line.offset, _truncated(line, span.file.name))
                continue
        except (ValueError, RecursionError):
            reason = "JSON with a number or a nesting beyond all bounds"
        else:
            yield Value(line.offset, row)
            continue
        shown = excerpt(line.text), len(line.text)
        entry = Rejected(reason, span.file.name, line.offset, *shown)
        yield Value(line.offset, entry)
