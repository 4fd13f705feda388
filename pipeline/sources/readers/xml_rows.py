"""Reads XML: a document for each element of one name.

A row is the outermost element with the configured name (`row`), wherever it stands;
namespaces are ignored. Its columns are

- `@name`, an attribute;
- `name`, a child element: its text, or its own columns as nested values if it has
  attributes or children (`seg.@lang`); a list if several children have the name;
- `#text`, the text of the element itself and of all elements within it.

Texts have no blanks at their ends. The file is decompressed and parsed as a stream; the
encoding is the one that the file declares. A row's offset is its number in the file,
counted from 0. External files, such as a DTD, are never opened. Damaged XML ends the
reading of a file.
"""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import Any, BinaryIO
from xml.etree.ElementTree import Element

from transbeam.configs.schema.table_sources import XmlSourceConfig
from transbeam.pipeline.documents.document import BrokenFile, Item, Rejected, Span
from transbeam.pipeline.sources.files.file_access import gaps_in, open_file
from transbeam.pipeline.sources.readers.table_rows import row_document

_LONGEST_LINE = 1 << 16
_DAMAGE = (ElementTree.ParseError, ValueError, LookupError)
_MOST_NAMES = 20


def read(span: Span, source: XmlSourceConfig) -> Iterator[Item]:
    """Yields a document per row.

    Raises:
        BrokenFile: The XML is damaged or truncated, or has no element of the name.
    """
    name = span.file.name
    parser = _RowParser(source.row)
    with open_file(span.file) as stream:
        for number, row in enumerate(_rows(stream, parser)):
            if row is None:
                reason = "torn by a damaged stretch of the file"
                yield Rejected.from_content(reason, name, number, "")
            else:
                yield row_document(columns_of(row), source.columns, name, number)
        if not parser.num_rows:
            raise BrokenFile(
                f"no element <{source.row}>",
                f"the elements here: {', '.join(parser.names)}",
                unread=span.size,
            )


def columns_of(element: Element) -> dict[str, Any]:
    """Returns the columns of an element.

    Example:
    >>> pair = "<pair id='8'><t> Oil rose. </t><h lang='en'>It <b>fell</b>.</h></pair>"
    >>> columns_of(ElementTree.fromstring(pair))
    {'@id': '8', 't': 'Oil rose.', 'h': {'@lang': 'en', 'b': 'fell', '#text': \
'It fell.'}, '#text': 'Oil rose. It fell.'}
    """
    columns: dict[str, Any] = {f"@{_local(k)}": v for k, v in element.items()}
    for child in element:
        name = _local(child.tag)
        value = columns_of(child)
        value = value["#text"] if len(value) == 1 else value
        if name not in columns:
            columns[name] = value
        elif isinstance(columns[name], list):
            columns[name].append(value)
        else:
            columns[name] = [columns[name], value]
    columns["#text"] = "".join(element.itertext()).strip()
    return columns


def _rows(stream: BinaryIO, parser: "_RowParser") -> Iterator[Element | None]:
    """Yields each row, or None for a row with a gap in it."""
    gaps = gaps_in(stream)
    offset = 0
    try:
        for line in iter(lambda: stream.readline(_LONGEST_LINE), b""):
            start, offset = offset, offset + len(line)
            for row in parser.feed(line, start):
                is_torn = any(parser.row_offset < gap < offset for gap in gaps)
                yield None if is_torn else row
    except _DAMAGE as error:
        raise BrokenFile("damaged XML", str(error), parser.num_rows) from error
    try:
        parser.close()
    except _DAMAGE as error:
        detail = str(error)
        raise BrokenFile(
            "truncated XML", detail, parser.num_rows, doubtful=True
        ) from error


class _RowParser:
    """An incremental parser for the rows of the XML.

    Args:
        row: The name of the row elements.

    Attributes:
        row_offset: The offset of the line in which the last row started.
        num_rows: The number of complete rows parsed so far.
        names: The first few different names of elements outside of rows.
    """

    def __init__(self, row: str) -> None:
        self._row = row
        self._parser = ElementTree.XMLPullParser(("start", "end"))
        self._above: list[Element] = []
        self._rows_open = 0
        self.row_offset = 0
        self.num_rows = 0
        self.names: list[str] = []

    def feed(self, line: bytes, offset: int) -> Iterator[Element]:
        """Parses a line at `offset`; yields the rows that end in it.

        Raises:
            ParseError, ValueError, LookupError: The text is invalid XML.
        """
        self._parser.feed(line)
        events: Iterator[Any] = self._parser.read_events()
        for event, element in events:
            name = _local(element.tag)
            if event == "start":
                self._start(element, name, offset)
                continue
            self._above.pop()
            if name == self._row:
                self._rows_open -= 1
            if self._rows_open:
                continue
            if name == self._row:
                self.num_rows += 1
                yield element
            # Otherwise the tree would grow to the size of the file.
            self._above[-1].clear() if self._above else element.clear()

    def _start(self, element: Element, name: str, offset: int) -> None:
        if name == self._row:
            self.row_offset = self.row_offset if self._rows_open else offset
            self._rows_open += 1
        elif name not in self.names and len(self.names) < _MOST_NAMES:
            self.names.append(name)
        self._above.append(element)

    def close(self) -> None:
        """Ends the parsing.

        Raises:
            ParseError: The XML ends before the root element does.
        """
        self._parser.close()
        list(self._parser.read_events())


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
