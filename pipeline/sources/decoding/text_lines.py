"""Reads the lines of text files with their offsets.

A line belongs to the span of its first byte, so that a file may be split anywhere.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from transbeam.configs.base.encodings import line_end
from transbeam.pipeline.documents.document import Rejected, Span
from transbeam.pipeline.sources.decoding.text_decoding import (
    decode,
    find_codec,
    not_text,
    refuse_carriage_returns,
    refuse_other_mark,
    undecodable,
)
from transbeam.pipeline.sources.files.file_access import gaps_in, open_file


@dataclass(frozen=True, slots=True)
class Line:
    r"""A line of a file.

    Attributes:
        offset: Its byte offset in the (decompressed) file.
        text: Its characters with the line end; undecodable bytes as `\xff`.
        rejected: The quarantine entry if the line is not text.
    """

    offset: int
    text: str
    rejected: Rejected | None = None

    @property
    def content(self) -> str:
        """The text without the line end."""
        return self.text.rstrip("\r\n")

    @property
    def is_open(self) -> bool:
        """True if the line has no line end: the file may be truncated in it."""
        return not self.text.endswith("\n")


def lines(span: Span, encoding: str) -> Iterator[Line]:
    """Yields the lines that begin in a span.

    Raises:
        BrokenFile: The file is truncated or damaged, or its encoding is uncertain.
    """
    file = span.file
    codec = find_codec(file, encoding)
    # The end of a compressed file's text does not follow from its size.
    end = sys.maxsize if span.end == file.size else span.end
    with open_file(file) as stream:
        gaps = gaps_in(stream)
        for offset, raw in raw_lines(stream, span.start, line_end(codec)):
            if offset >= end:
                return
            if offset == 0:
                refuse_other_mark(raw, codec)
                refuse_carriage_returns(raw, codec)
            whole = raw.endswith(b"\n")
            if gaps and (torn := torn_entry(raw, gaps, file.name, offset, whole=whole)):
                yield Line(offset, raw.decode(codec, "backslashreplace"), torn)
                continue
            try:
                text = decode(raw, codec)
                yield Line(offset, text, not_text(text, file.name, offset))
            except UnicodeDecodeError as error:
                text = raw.decode(codec, "backslashreplace")
                rejected = undecodable(error, codec, file.name, offset)
                yield Line(offset, text, rejected)


def torn_entry(
    raw: bytes, gaps: Sequence[int], source: str, offset: int, *, whole: bool
) -> Rejected | None:
    """Returns the quarantine entry of bytes with a gap; None without one.

    Args:
        raw: The bytes.
        gaps: The result of `gaps_in`.
        source: The file's name within the corpus.
        offset: The offset of the first byte.
        whole: Whether the end of the bytes is known to be complete.

    Example:
    >>> torn_entry(b"begin|end", [107], "a.txt.gz", 100, whole=True).reason
    'torn by a damaged stretch of the file'
    >>> torn_entry(b"all", [107], "a.txt.gz", 107, whole=True) is None
    True
    """
    end = offset + len(raw)
    if any(offset < gap < end or (gap == end and not whole) for gap in gaps):
        reason = "torn by a damaged stretch of the file"
        return Rejected.from_content(reason, source, offset, raw)
    return None


def raw_lines(
    stream: BinaryIO, start: int, newline: bytes
) -> Iterator[tuple[int, bytes]]:
    r"""Yields offset and bytes of the lines that begin at `start` or later.

    Args:
        stream: A file at its beginning; seekable if `start` is not 0.
        start: A byte offset, possibly within a line or a character.
        newline: The bytes of a newline, one, two or four.

    Example:
    >>> import io
    >>> list(raw_lines(io.BytesIO(b"one\ntwo\n\nthree"), 2, b"\n"))
    [(4, b'two\n'), (8, b'\n'), (9, b'three')]
    """
    width = len(newline)
    offset = 0
    if start > 0:
        # The character before `start` may be the newline of the previous line.
        offset = -(-start // width) * width - width
        stream.seek(offset)
        offset += len(_raw_line(stream, newline))
    rest = stream if width == 1 else iter(lambda: _raw_line(stream, newline), b"")
    for raw in rest:
        yield offset, raw
        offset += len(raw)


def _raw_line(stream: BinaryIO, newline: bytes) -> bytes:
    """Reads up to and including a newline."""
    raw = stream.readline()
    if len(newline) == 1:
        return raw
    raw += stream.read(-len(raw) % len(newline))
    while not raw.endswith(newline) and (more := stream.readline()):
        # The byte of a newline may be a part of another character.
        raw += more
        raw += stream.read(-len(raw) % len(newline))
    return raw
