"""JSON lines: an object on each line; its fields are the columns.

Blank lines are nothing. Of a field given twice the last counts. A row's offset is the
byte its line begins at.
"""

import json
from collections.abc import Iterator

from configs.table_sources import JsonlSource
from pipeline.cleaning import excerpt
from pipeline.documents import Document, Rejected
from pipeline.readers.columns import row_document
from pipeline.readers.lines import lines
from pipeline.spans import Span


def read(span: Span, source: JsonlSource) -> Iterator[Document | Rejected]:
    """A document for each line that begins in a span."""
    name = span.file.name
    for line in lines(span, source.encoding):
        if line.rejected:
            yield line.rejected
            continue
        if line.text.isspace():
            continue
        try:
            row = json.loads(line.content)
        except json.JSONDecodeError as error:
            reason = f"not JSON: {error.msg}"
        except (ValueError, RecursionError):
            reason = "JSON with a number or a nesting beyond all bounds"
        else:
            if isinstance(row, dict):
                yield row_document(row, source.columns, name, line.offset)
                continue
            reason = "not a JSON object"
        yield Rejected(reason, name, line.offset, excerpt(line.text), len(line.text))
