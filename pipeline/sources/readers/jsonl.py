"""Reads JSON Lines: an object per line, whose fields are the columns.

Blank lines are skipped. Of duplicate fields the last is used. A row's offset is that of
its line. A last line that ends within its object shows that the file is truncated by an
unknown amount. A file with an array of objects, or with objects on several lines, is
supported, too (`json_values`).
"""

import json
from collections.abc import Iterator
from typing import Any

from transbeam.configs.schema.table_sources import JsonlSourceConfig
from transbeam.pipeline.documents.document import (
    Document,
    Rejected,
    SourceFile,
    Span,
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
            yield Rejected.from_content("not a JSON object", name, offset, text)


def _rows(span: Span, source: JsonlSourceConfig) -> Iterator[Value]:
    if span.start == 0 and has_values(span.file, source.encoding):
        yield from read_values(span.file, source.encoding)
        return
    for line in lines(span, source.encoding):
        if line.rejected or not line.text.isspace():
            yield Value(line.offset, line.rejected or _parsed(line, span.file.name))


def _parsed(line: Line, name: str) -> Any:
    is_cut = False
    try:
        return json.loads(line.content)
    except json.JSONDecodeError as error:
        is_cut = line.is_open and ends_early(error)
        reason = "truncated JSON" if is_cut else f"not JSON: {error.msg}"
    except (ValueError, RecursionError):
        reason = "JSON with a number or a nesting beyond all bounds"
    return Rejected.from_content(reason, name, line.offset, line.text, doubtful=is_cut)
