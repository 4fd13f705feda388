"""Reads web archives: WARC (ISO 28500, WARC 1.0 and 1.1) and extracted text (WET).

A record of extracted text (`conversion`, in WET files) becomes a document; a server's
response (`response`) becomes a document with the text of its HTML. All other records
are `Filtered`. The offset of a record is the offset of its first byte in the
decompressed file.

Invalid or damaged data are skipped up to the first line of the next record, and
rejected as one entry.
"""

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from transbeam.configs.schema.sources import WarcSourceConfig
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Document,
    Filtered,
    Rejected,
    Span,
    excerpt,
)
from transbeam.pipeline.sources.decoding.text_decoding import decode, undecodable
from transbeam.pipeline.sources.files.file_access import (
    gaps_in,
    open_file,
    source_offset,
)
from transbeam.pipeline.sources.readers.web_page import (
    HTML_TYPES,
    UnreadablePage,
    find_charset,
    page_text,
    split_response,
    unpack,
)

_LONGEST_LINE = 1 << 16


_VERSION = re.compile(rb"WARC/\d+\.\d+\s*")
_BLOCK_BYTES = 1 << 20
_TEXTS = ("conversion", "response")
_OTHERS = ("warcinfo", "request", "metadata", "revisit", "resource", "continuation")
_PAGE_TYPES = (*HTML_TYPES, "text/plain")


class PushbackReader:
    r"""Reads a stream from `open_file`; bytes can be pushed back.

    Attributes:
        offset: The number of bytes read, without bytes that were pushed back.

    Example:
    >>> lines = PushbackReader(io.BytesIO(b"one\ntwo\n"))
    >>> lines.put_back(lines.readline())
    >>> lines.readline(), lines.offset
    (b'one\n', 4)
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._gaps = gaps_in(stream)
        self._again = io.BytesIO()
        self.offset = 0

    def readline(self) -> bytes:
        """Reads up to the next line end, at most `_LONGEST_LINE` bytes."""
        line = self._again.readline(_LONGEST_LINE)
        if not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
            line += self._stream.readline(_LONGEST_LINE - len(line))
        self.offset += len(line)
        return line

    def read(self, size: int) -> bytes:
        """Reads at most `size` bytes; none at the end."""
        piece = self._again.read(size) or self._stream.read(size)
        self.offset += len(piece)
        return piece

    def put_back(self, raw: bytes) -> None:
        """Pushes back bytes that were just read; the next read returns them again."""
        self._again = io.BytesIO(raw + self._again.read())
        self.offset -= len(raw)

    def gap_since(self, offset: int) -> int | None:
        """Returns the first gap between `offset` and the current position."""
        inside = (gap for gap in self._gaps if offset < gap < self.offset)
        return next(inside, None)

    def source_offset(self) -> int:
        """Returns the approximate file position; see `file_access.source_offset`."""
        waiting = len(self._again.getbuffer()) - self._again.tell()
        return source_offset(self._stream) - waiting


@dataclass(frozen=True)
class _Record:
    offset: int
    kind: str
    size: int
    block: bytes  # empty for kinds without text


class _Malformed(Exception):
    """Bytes are not a valid record; the arguments are a reason and what to show."""


def read(
    span: Span, source: WarcSourceConfig
) -> Iterator[Document | Filtered | Rejected]:
    """Yields one result per record, and a `Rejected` per run of invalid bytes.

    Raises:
        BrokenFile: The archive is truncated or damaged.
    """
    name = span.file.name
    with open_file(span.file) as stream:
        for record in _records(PushbackReader(stream), name):
            if isinstance(record, Rejected):
                yield record
            elif record.kind == "conversion":
                try:
                    yield Document(decode(record.block, "utf-8"), name, record.offset)
                except UnicodeDecodeError as error:
                    yield undecodable(error, "utf-8", name, record.offset)
            elif record.kind == "response":
                yield _response(record, name)
            else:
                kind = record.kind if record.kind in _OTHERS else "unknown"
                yield Filtered(f"WARC record: {kind}", name, record.offset, record.size)


def _response(record: _Record, name: str) -> Document | Filtered | Rejected:
    place = name, record.offset, record.size
    try:
        status, headers, body = split_response(record.block)
        if not 200 <= status < 300:
            return Filtered("web page: HTTP status is not success", *place)
        if headers.get_content_type() not in _PAGE_TYPES:
            return Filtered("web page: neither HTML nor text", *place)
        body = unpack(body, headers)
        return Document(page_text(body, headers), name, record.offset)
    except UnreadablePage as error:
        return Rejected.from_content(str(error), name, record.offset, record.block)
    except UnicodeDecodeError as error:
        encoding = find_charset(error.object, headers)
        return undecodable(error, encoding, name, record.offset)


def _records(archive: PushbackReader, name: str) -> Iterator[_Record | Rejected]:
    while True:
        offset, place = archive.offset, archive.source_offset()
        line = archive.readline()
        if not line:
            return
        if line.isspace():  # each record ends with two line ends
            continue
        try:
            yield _record(archive, line, offset)
        except _Malformed as error:
            reason, shown = error.args
            _skip(archive)
            unread = archive.source_offset() - place
            yield Rejected(reason, name, offset, excerpt(shown), unread=unread)


def _skip(archive: PushbackReader) -> None:
    """Skips to the first line of the next record."""
    while line := archive.readline():
        if _VERSION.fullmatch(line):
            archive.put_back(line)
            return


def _record(archive: PushbackReader, line: bytes, offset: int) -> _Record:
    """Reads the rest of a record whose first line was already read."""
    if not line.startswith(b"WARC/"):
        raise _Malformed("not a WARC record", line)
    header = _header(archive, offset)
    length = header.get("content-length", "")
    if not length.isdecimal():
        raise _Malformed("WARC record without a length", length)
    kind = header.get("warc-type", "").lower()
    block = _block(archive, int(length), keep=kind in _TEXTS, offset=offset)
    if gap := archive.gap_since(offset):
        # The bytes after the gap belong to another record.
        archive.put_back(block[len(block) - (archive.offset - gap) :])
        raise _Malformed("torn by a damaged stretch of the file", block)
    end = archive.readline()
    archive.put_back(end)
    if end and not end.isspace() and not _VERSION.fullmatch(end):
        archive.put_back(block)
        raise _Malformed("WARC record of another length than it says", block)
    return _Record(offset, kind, int(length), block)


def _header(archive: PushbackReader, offset: int) -> Mapping[str, str]:
    """Reads a record's header fields, by lowercase name."""
    fields: dict[str, str] = {}
    while line := archive.readline():
        if line.isspace():
            return fields
        if _VERSION.fullmatch(line):
            archive.put_back(line)
            raise _Malformed("torn WARC record", repr(fields))
        name, _, value = line.decode("utf-8", "replace").partition(":")
        fields[name.strip().lower()] = value.strip()
    raise _truncated("it ends inside a header", offset)


def _block(archive: PushbackReader, length: int, *, keep: bool, offset: int) -> bytes:
    """Reads a record's block in steps: a wrong length could exceed the memory."""
    kept = []
    while length:
        piece = archive.read(min(length, _BLOCK_BYTES))
        if not piece:
            raise _truncated("it ends inside it", offset)
        length -= len(piece)
        if keep:
            kept.append(piece)
    return b"".join(kept)


def _truncated(where: str, offset: int) -> BrokenFile:
    return BrokenFile("truncated WARC record", where, offset, doubtful=True)
