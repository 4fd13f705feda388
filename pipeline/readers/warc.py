"""Web archives in the WARC format (ISO 28500, WARC 1.0 and 1.1), and their text, WET.

A record of extracted text (`conversion`, in WET files) is a document; so is a page
that a server sent (`response`), as the text of its HTML. All other records are
`Filtered`. A record's offset is the byte of the unpacked file it begins at.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from configs.sources import WarcSource
from pipeline.cleaning import excerpt
from pipeline.documents import Document, Filtered, Rejected
from pipeline.readers.decoding import decode, undecodable
from pipeline.readers.files import BrokenFile, open_file
from pipeline.readers.web_page import (
    HTML_TYPES,
    UnreadablePage,
    charset_of,
    page_text,
    split_response,
    unpack,
)
from pipeline.spans import Span

_LONGEST_LINE = 1 << 16
_BLOCK_BYTES = 1 << 20
_TEXTS = ("conversion", "response")
_OTHERS = ("warcinfo", "request", "metadata", "revisit", "resource", "continuation")
_PAGE_TYPES = (*HTML_TYPES, "text/plain")


@dataclass(frozen=True)
class _Record:
    offset: int
    kind: str
    block: bytes  # empty for the kinds that have no text


def read(span: Span, source: WarcSource) -> Iterator[Document | Filtered | Rejected]:
    """An outcome for each record.

    Raises:
        BrokenFile: The archive breaks off or is damaged.
    """
    name = span.file.name
    with open_file(span.file) as stream:
        for record in _records(stream):
            if record.kind == "conversion":
                try:
                    yield Document(decode(record.block, "utf-8"), name, record.offset)
                except UnicodeDecodeError as error:
                    yield undecodable(error, "utf-8", name, record.offset)
            elif record.kind == "response":
                yield _response(record, name)
            else:
                kind = record.kind if record.kind in _OTHERS else "unknown"
                yield Filtered(f"WARC record: {kind}", name, record.offset)


def _response(record: _Record, name: str) -> Document | Filtered | Rejected:
    try:
        status, headers, body = split_response(record.block)
        if not 200 <= status < 300:
            return Filtered("web page: HTTP status is not success", name, record.offset)
        if headers.get_content_type() not in _PAGE_TYPES:
            return Filtered("web page: neither HTML nor text", name, record.offset)
        body = unpack(body, headers)
        return Document(page_text(body, headers), name, record.offset)
    except UnreadablePage as error:
        return Rejected(str(error), name, record.offset, excerpt(record.block))
    except UnicodeDecodeError as error:
        encoding = charset_of(error.object, headers)
        return undecodable(error, encoding, name, record.offset)


def _records(stream: BinaryIO) -> Iterator[_Record]:
    offset = 0
    while True:
        line = stream.readline(_LONGEST_LINE)
        if not line:
            return
        if line.isspace():  # two line ends follow each record
            offset += len(line)
            continue
        if not line.startswith(b"WARC/"):
            raise BrokenFile("not a WARC record", excerpt(line), offset)
        header, header_size = _header(stream, offset)
        length = header.get("content-length", "")
        if not length.isdecimal():
            raise BrokenFile("WARC record without a length", excerpt(length), offset)
        kind = header.get("warc-type", "").lower()
        block = _block(stream, int(length), keep=kind in _TEXTS, offset=offset)
        yield _Record(offset, kind, block)
        offset += len(line) + header_size + int(length)


def _header(stream: BinaryIO, offset: int) -> tuple[Mapping[str, str], int]:
    """A record's fields by name in lower case, and the bytes they take up."""
    fields: dict[str, str] = {}
    size = 0
    while line := stream.readline(_LONGEST_LINE):
        size += len(line)
        if line.isspace():
            return fields, size
        name, _, value = line.decode("utf-8", "replace").partition(":")
        fields[name.strip().lower()] = value.strip()
    raise BrokenFile("truncated WARC record", "it ends inside a header", offset)


def _block(stream: BinaryIO, length: int, *, keep: bool, offset: int) -> bytes:
    """The next bytes; read piece by piece, for a wrong length may be beyond bounds."""
    kept = []
    while length:
        piece = stream.read(min(length, _BLOCK_BYTES))
        if not piece:
            raise BrokenFile("truncated WARC record", "it ends inside it", offset)
        length -= len(piece)
        if keep:
            kept.append(piece)
    return b"".join(kept)
