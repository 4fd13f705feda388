"""Reads plain text files: a document per line, per paragraph or per file.

Several workers may read different spans of one file, if the documents are lines or
paragraphs. Each document belongs to exactly one span, wherever the file is split:

- a line belongs to the span that contains its first byte;
- a paragraph belongs to the span that contains the start of the blank line before it
  (the first paragraph of a file belongs to the first span).
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from transbeam.configs.base.encodings import line_end
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.pipeline.documents.document import Document, Rejected, Span
from transbeam.pipeline.sources.decoding.text_decoding import (
    check_byte_order_mark,
    decode,
    find_codec,
    gap_entry,
    not_text,
    raw_lines,
    reject_carriage_returns,
    undecodable,
)
from transbeam.pipeline.sources.files.file_access import gaps_in, open_file

_TO_THE_END = sys.maxsize


def read(span: Span, source: TextSourceConfig) -> Iterator[Document | Rejected]:
    """Yields the documents of a span; undecodable documents as `Rejected`."""
    codec = find_codec(span.file, source.encoding)
    # The end of a compressed file's text does not follow from its size.
    end = _TO_THE_END if span.end == span.file.size else span.end
    name = span.file.name
    with open_file(span.file) as stream:
        gaps = gaps_in(stream)
        for offset, raw in pieces(stream, source.document, codec, span.start, end):
            whole = source.document == "line" and raw.endswith(b"\n")
            torn = gap_entry(raw, gaps, name, offset, whole=whole)
            yield torn or decoded(raw, codec, name, offset)


def pieces(
    stream: BinaryIO,
    document: str,
    codec: str,
    start: int = 0,
    end: int = _TO_THE_END,
) -> Iterator[tuple[int, bytes]]:
    """Yields offset and bytes of each document that belongs to [start, end).

    Args:
        stream: A file at its beginning; seekable if `start` is not 0.
        document: `line`, `paragraph` or `file`, as in the configuration.
        codec: The encoding of the file.
        start: The first byte of the span.
        end: The end of the span.

    Raises:
        BrokenFile: The byte order mark of the file belongs to another encoding, or the
            line ends of the file are carriage returns alone.
    """
    for offset, raw in _pieces(stream, document, codec, start, end):
        if offset == 0:
            check_byte_order_mark(raw, codec)
            if document != "file":
                reject_carriage_returns(raw, codec)
        yield offset, raw


def _pieces(
    stream: BinaryIO, document: str, codec: str, start: int, end: int
) -> Iterator[tuple[int, bytes]]:
    if document == "file":
        if raw := stream.read():
            yield 0, raw
        return
    newline = line_end(codec)
    lines = raw_lines(stream, start, newline)

    def is_blank_text(line: bytes) -> bool:
        return not line.decode(codec, "replace").removeprefix("\ufeff").strip()

    is_blank = bytes.isspace if newline == b"\n" else is_blank_text
    if document == "line":
        yield from _lines(lines, is_blank, end)
    else:
        yield from _paragraphs(lines, is_blank, end, first_span=start == 0)


def _lines(
    lines: Iterable[tuple[int, bytes]], is_blank: Callable[[bytes], bool], end: int
) -> Iterator[tuple[int, bytes]]:
    """Yields offset and bytes of the non-empty lines that begin before `end`."""
    for offset, line in lines:
        if offset >= end:
            return
        if not is_blank(line):
            yield offset, line


def _paragraphs(
    lines: Iterable[tuple[int, bytes]],
    is_blank: Callable[[bytes], bool],
    end: int,
    first_span: bool,
) -> Iterator[tuple[int, bytes]]:
    """Yields offset and bytes of each paragraph of a span that ends at `end`."""
    owned = first_span  # whether the current text belongs to a paragraph of this span
    first, paragraph = 0, []
    for offset, line in lines:
        if is_blank(line):
            if paragraph:
                yield first, b"".join(paragraph)
                paragraph = []
            if offset >= end:
                return
            owned = True
        elif owned:
            if not paragraph:
                first = offset
            paragraph.append(line)
        elif offset >= end:
            return
    if paragraph:
        yield first, b"".join(paragraph)


def decoded(raw: bytes, codec: str, name: str, offset: int) -> Document | Rejected:
    """Decodes a document; undecodable bytes become `Rejected`."""
    try:
        text = decode(raw, codec)
        return not_text(text, name, offset) or Document(text, name, offset)
    except UnicodeDecodeError as error:
        return undecodable(error, codec, name, offset)
