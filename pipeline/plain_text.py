"""Plain text files: a document per line, per paragraph or per file.

A file of lines or paragraphs may be read in spans by several workers. Each document
belongs to exactly one span, whatever the cuts:

- a line, to the span its first byte lies in;
- a paragraph, to the span in which the blank line right before it begins (the first
  paragraph of a file, to the first span).
"""

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from configs.sources import TextSource
from pipeline.cleaning import excerpt
from pipeline.documents import Document, Rejected
from pipeline.spans import SourceFile, Span


def list_files(source: TextSource) -> list[SourceFile]:
    """The files a glob names; their names start below its fixed part."""
    paths = [Path(path) for path in glob.glob(source.path, recursive=True)]
    root = _fixed_root(source.path)
    return [
        SourceFile.at(path, path.relative_to(root).as_posix())
        for path in paths
        if path.is_file()
    ]


def _fixed_root(pattern: str) -> Path:
    """The folder a glob starts from: `a/b` for `a/b/*.txt` and for `a/b/c.txt`."""
    parts = []
    for part in Path(pattern).parts[:-1]:
        if glob.has_magic(part):
            break
        parts.append(part)
    return Path(*parts)


def read(span: Span, document: str) -> Iterator[Document | Rejected]:
    """The documents that belong to a span, undecodable ones as `Rejected`."""
    with open(span.file.path, "rb") as stream:
        match document:
            case "file":
                pieces = iter([(0, stream.read())])
            case "line":
                pieces = _lines(stream, span.start, span.end)
            case "paragraph":
                pieces = _paragraphs(stream, span.start, span.end)
        for offset, raw in pieces:
            yield _decoded(raw, span.file.name, offset)


def _lines(stream: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of the non-empty lines that begin in [start, end)."""
    offset = _seek_line_start(stream, start)
    while offset < end and (line := stream.readline()):
        if not line.isspace():
            yield offset, line
        offset += len(line)


def _paragraphs(stream: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of the paragraphs owned by [start, end)."""
    offset = _seek_line_start(stream, start)
    owned = start == 0  # whether text met now belongs to a paragraph of this span
    first, lines = offset, []
    while line := stream.readline():
        if line.isspace():
            if lines:
                yield first, b"".join(lines)
                lines = []
            if offset >= end:
                return
            owned = True
        elif owned:
            if not lines:
                first = offset
            lines.append(line)
        elif offset >= end:
            return
        offset += len(line)
    if lines:
        yield first, b"".join(lines)


def _seek_line_start(stream: BinaryIO, start: int) -> int:
    """Goes to the first line that begins at `start` or later."""
    if start == 0:
        return 0
    stream.seek(start - 1)
    return start - 1 + len(stream.readline())


def _decoded(raw: bytes, name: str, offset: int) -> Document | Rejected:
    try:
        return Document(raw.decode("utf-8"), name, offset)
    except UnicodeDecodeError as error:
        reason = "binary" if b"\0" in raw else "not UTF-8"
        at = offset + error.start
        return Rejected(reason, name, at, excerpt(raw[error.start :]))
