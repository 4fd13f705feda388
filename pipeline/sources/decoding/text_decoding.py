"""Decodes files to text and to lines, in a declared or detected encoding.

A line belongs to the span that contains the line's first byte, so that a file may be
split anywhere.
"""

import codecs
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO

from transbeam.configs.base.encodings import DETECT, line_end
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Rejected,
    SourceFile,
    Span,
    excerpt,
)
from transbeam.pipeline.sources.decoding.encoding_detection import (
    bom_codec,
    detect,
    is_plain_ascii,
    wide_codec,
)
from transbeam.pipeline.sources.files.file_access import (
    gaps_in,
    open_beginning,
    open_file,
)
from transbeam.pipeline.sources.files.reading_report import report_encoding

_SAMPLE_BYTES = 1 << 20
# Without white space and the ESC of terminal sequences.
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_MOST_CONTROLS, _FEW = 0.25, 6
_UNWRITTEN = 16 * "\0"
_BEGINNING_BYTES = 1 << 12


def decode(raw: bytes, encoding: str) -> str:
    r"""Decodes bytes to text without a byte order mark.

    Args:
        raw: A whole file, or a part of a file that ends at a character boundary.
        encoding: A codec's name, or `detect`. For parts of a file, pass the result of
            `find_codec`, so that all parts have the same codec.

    Raises:
        UnicodeDecodeError: The bytes are not valid in the encoding.

    Example:
    >>> decode(b"\xef\xbb\xbfcaf\xc3\xa9", "utf-8"), decode(b"caf\xe9", "latin-1")
    ('café', 'café')
    """
    codec = detect(raw).codec if encoding == DETECT else encoding
    return raw.decode(codec).removeprefix("\ufeff")


def undecodable(
    error: UnicodeDecodeError, encoding: str, source: str, offset: int
) -> Rejected:
    r"""Returns the quarantine entry of bytes that `decode` rejected.

    Args:
        error: The exception that `decode` raised.
        encoding: The encoding that was passed to `decode`.
        source: The file's name within the corpus.
        offset: The offset of the first byte in the file.

    Example:
    >>> try:
    ...     decode(b"caf\xe9", "utf-8")
    ... except UnicodeDecodeError as error:
    ...     undecodable(error, "utf-8", "a.txt", 100)
    Rejected(reason='not UTF-8', source='a.txt', offset=103, excerpt='\\xe9', ...)
    """
    raw = error.object
    reason = f"not {encoding.upper()}"
    if encoding == DETECT:
        reason = "encoding cannot be told"
    elif b"\0" in raw and not encoding.lower().startswith(("utf-16", "utf-32")):
        reason = "binary"
    shown = excerpt(raw[error.start :])
    return Rejected(reason, source, offset + error.start, shown, size=len(raw))


def not_text(text: str, source: str, offset: int) -> Rejected | None:
    r"""Returns the quarantine entry of decoded binary data; None for text.

    Single control characters in a text are handled by the cleaning.

    Args:
        text: The decoded characters.
        source: The file's name within the corpus.
        offset: The offset of the text in the file.

    Example:
    >>> not_text("begin" + 16 * "\0", "a.txt", 0).reason
    'a stretch of NUL bytes'
    >>> not_text("T\0o\0 \0b\0e \0s\0o\0", "a.txt", 0).excerpt
    'as in UTF-16: write data.source.encoding: utf-16, or detect; T\\x00o\\x00 \\x00...'
    >>> not_text("nul\0nul", "a.txt", 0) is None
    True
    """
    if "\0" not in text:  # a fast test: all such files contain NUL
        return None
    if _UNWRITTEN in text:
        reason, what = "a stretch of NUL bytes", "as in a file not written to its end; "
    elif len(_CONTROLS.findall(text)) > max(_MOST_CONTROLS * len(text), _FEW):
        reason = "binary"
        what = "as in UTF-16: write data.source.encoding: utf-16, or detect; "
    else:
        return None
    return Rejected(reason, source, offset, what + excerpt(text), len(text))


def reject_carriage_returns(beginning: bytes, codec: str) -> None:
    r"""Rejects a file whose line ends are carriage returns alone.

    Args:
        beginning: The bytes of the file up to the first line feed, or the whole file if
            it contains no line feed.
        codec: The codec of the file.

    Raises:
        BrokenFile: The lines of the file end with carriage returns alone.

    Example:
    >>> reject_carriage_returns(b"one\rtwo\r", "utf-8")
    Traceback (most recent call last):
    BrokenFile: ('line ends are carriage returns alone', ...
    """
    if b"\n" in beginning or len(line_end(codec)) > 1:
        return  # systems with such line ends did not use wide characters
    if sum(1 for line in beginning.split(b"\r") if line.strip()) > 1:
        raise BrokenFile(
            "line ends are carriage returns alone",
            r"make them line feeds: tr '\r' '\n'; " + excerpt(beginning),
        )


def check_byte_order_mark(beginning: bytes, codec: str) -> None:
    r"""Rejects a UTF-16 or UTF-32 file that is read in another encoding.

    Args:
        beginning: The first bytes of the file.
        codec: The codec of the file.

    Raises:
        BrokenFile: The byte order mark contradicts the codec.

    Example:
    >>> check_byte_order_mark(b"\xff\xfet\0", "utf-8")
    Traceback (most recent call last):
    BrokenFile: ('UTF-16 by its byte order mark, not utf-8', ...
    """
    mark = (bom_codec(beginning) or "").upper()[:6]
    known = codecs.lookup(codec).name.upper()
    if mark in ("UTF-16", "UTF-32") and not known.startswith(mark):
        raise BrokenFile(
            f"{mark} by its byte order mark, not {codec}",
            f"write data.source.encoding: {mark.lower()}, or {DETECT}",
        )


def find_codec(file: SourceFile, encoding: str) -> str:
    """Returns the codec for parts of a file, by its byte order mark or `detect`.

    Raises:
        BrokenFile: The encoding is `detect` and uncertain.
    """
    return resolve_codec(lambda: open_beginning(file), encoding, file.name)


def resolve_codec(
    open_stream: Callable[[], AbstractContextManager[BinaryIO]],
    encoding: str,
    source: str,
) -> str:
    """Returns the codec as `find_codec` does, for any stream, such as a zip member."""
    name = encoding if encoding == DETECT else codecs.lookup(encoding).name
    if name not in (DETECT, "utf-16", "utf-32"):
        return encoding
    with open_stream() as stream:
        if name != DETECT:
            beginning = stream.read(_BEGINNING_BYTES)
            codec = bom_codec(beginning) or wide_codec(beginning) or ""
            # Little-endian by default: nearly all such files are from Windows.
            return codec if codec.startswith(name) else f"{name}-le"
        sample = _sample(stream)
    try:
        found = detect(sample, cut=len(sample) == _SAMPLE_BYTES)
    except UnicodeDecodeError as error:
        detail = (
            f"{error.reason}; declare the source's encoding; {excerpt(error.object)}"
        )
        raise BrokenFile("encoding cannot be told", detail) from error
    report_encoding(source, found.codec, found.confidence)
    return found.codec


def _sample(stream: BinaryIO) -> bytes:
    """Returns the first block that is not plain ASCII."""
    while block := stream.read(_SAMPLE_BYTES):
        if not is_plain_ascii(block):
            return block
    return b""


@dataclass(frozen=True, slots=True)
class Line:
    r"""A line of a file.

    Attributes:
        offset: The line's byte offset in the (decompressed) file.
        text: The line's characters, including the line end; undecodable bytes are
            escaped, as in `\xff`.
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
        """True if the line has no line end, so the file may be truncated there."""
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
                check_byte_order_mark(raw, codec)
                reject_carriage_returns(raw, codec)
            whole = raw.endswith(b"\n")
            if gaps and (torn := gap_entry(raw, gaps, file.name, offset, whole=whole)):
                yield Line(offset, raw.decode(codec, "backslashreplace"), torn)
                continue
            try:
                text = decode(raw, codec)
                yield Line(offset, text, not_text(text, file.name, offset))
            except UnicodeDecodeError as error:
                text = raw.decode(codec, "backslashreplace")
                rejected = undecodable(error, codec, file.name, offset)
                yield Line(offset, text, rejected)


def gap_entry(
    raw: bytes, gaps: Sequence[int], source: str, offset: int, *, whole: bool
) -> Rejected | None:
    """Returns a quarantine entry if bytes are missing inside the text, else None.

    Args:
        raw: The bytes.
        gaps: The result of `gaps_in`.
        source: The file's name within the corpus.
        offset: The offset of the first byte.
        whole: Whether nothing is missing at the end of the bytes.

    Example:
    >>> gap_entry(b"begin|end", [107], "a.txt.gz", 100, whole=True).reason
    'torn by a damaged stretch of the file'
    >>> gap_entry(b"all", [107], "a.txt.gz", 107, whole=True) is None
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
    r"""Yields offset and bytes of each line that begins at `start` or later.

    Args:
        stream: A file at its beginning; seekable if `start` is not 0.
        start: A byte offset, possibly within a line or a character.
        newline: The encoded newline: one, two or four bytes.

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
