"""Bytes to text: encodings declared, or detected (`encoding_detection`)."""

import codecs
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import BinaryIO

from transbeam.configs.base.encodings import DETECT, line_end
from transbeam.pipeline.documents.byte_range import SourceFile
from transbeam.pipeline.documents.document import Rejected
from transbeam.pipeline.documents.rejection import excerpt
from transbeam.pipeline.sources.decoding.encoding_detection import (
    detect,
    marked,
    tells_nothing,
    wide_codec,
)
from transbeam.pipeline.sources.files.damage import BrokenFile
from transbeam.pipeline.sources.files.file_access import open_beginning
from transbeam.pipeline.sources.files.reading_report import report_encoding

_SAMPLE_BYTES = 1 << 20
# White space and escape sequences of terminals are not among them.
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_MOST_CONTROLS, _FEW = 0.25, 6
_UNWRITTEN = 16 * "\0"
_BEGINNING_BYTES = 1 << 12


def decode(raw: bytes, encoding: str) -> str:
    r"""The text that bytes stand for, without a byte order mark.

    Args:
        raw: A whole file, or a piece of one cut where a character ends.
        encoding: A codec's name, or `detect`. For the pieces of one file, take
            `codec_of` the file, so that all are read alike.

    Raises:
        UnicodeDecodeError: They are no text in that encoding.

    Example:
    >>> decode(b"\xef\xbb\xbfcaf\xc3\xa9", "utf-8"), decode(b"caf\xe9", "latin-1")
    ('café', 'café')
    """
    codec = detect(raw).codec if encoding == DETECT else encoding
    return raw.decode(codec).removeprefix("\ufeff")


def undecodable(
    error: UnicodeDecodeError, encoding: str, source: str, offset: int
) -> Rejected:
    r"""The quarantine entry of bytes that `decode` refused.

    Args:
        error: What `decode` raised.
        encoding: What it was given.
        source: The file's name within the corpus.
        offset: Where it stands for `decode`'s first byte, in bytes.

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
    r"""The quarantine entry of characters that no text is made of.

    A single control character in a text is left to the cleaning.

    Args:
        text: What `decode` made of some bytes.
        source: The file's name within the corpus.
        offset: Where it stands.

    Example:
    >>> not_text("begin" + 16 * "\0", "a.txt", 0).reason
    'a stretch of NUL bytes'
    >>> not_text("T\0o\0 \0b\0e \0s\0o\0", "a.txt", 0).excerpt
    'as in UTF-16: write data.source.encoding: utf-16, or detect; T\\x00o\\x00 \\x00...'
    >>> not_text("nul\0nul", "a.txt", 0) is None
    True
    """
    if "\0" not in text:  # which all such files have, and is looked for at once
        return None
    if _UNWRITTEN in text:
        reason, what = "a stretch of NUL bytes", "as in a file not written to its end; "
    elif len(_CONTROLS.findall(text)) > max(_MOST_CONTROLS * len(text), _FEW):
        reason = "binary"
        what = "as in UTF-16: write data.source.encoding: utf-16, or detect; "
    else:
        return None
    return Rejected(reason, source, offset, what + excerpt(text), len(text))


def refuse_carriage_returns(beginning: bytes, codec: str) -> None:
    r"""Refuses a file whose lines end as no other file's do.

    Args:
        beginning: Up to the first line feed, or all of the file if there is none.
        codec: What it is read by.

    Raises:
        BrokenFile: Carriage returns alone end its lines.

    Example:
    >>> refuse_carriage_returns(b"one\rtwo\r", "utf-8")
    Traceback (most recent call last):
    BrokenFile: ('line ends are carriage returns alone', ...
    """
    if b"\n" in beginning or len(line_end(codec)) > 1:
        return  # nor did systems with such lines write wide characters
    if sum(1 for line in beginning.split(b"\r") if line.strip()) > 1:
        raise BrokenFile(
            "line ends are carriage returns alone",
            r"make them line feeds: tr '\r' '\n'; " + excerpt(beginning),
        )


def refuse_other_mark(beginning: bytes, codec: str) -> None:
    r"""Refuses a file of UTF-16 or UTF-32 that is read in another encoding.

    Args:
        beginning: Its first bytes.
        codec: What they are read by.

    Raises:
        BrokenFile: They are a byte order mark that says otherwise.

    Example:
    >>> refuse_other_mark(b"\xff\xfet\0", "utf-8")
    Traceback (most recent call last):
    BrokenFile: ('UTF-16 by its byte order mark, not utf-8', ...
    """
    mark = (marked(beginning) or "").upper()[:6]
    known = codecs.lookup(codec).name.upper()
    if mark in ("UTF-16", "UTF-32") and not known.startswith(mark):
        raise BrokenFile(
            f"{mark} by its byte order mark, not {codec}",
            f"write data.source.encoding: {mark.lower()}, or {DETECT}",
        )


def codec_of(file: SourceFile, encoding: str) -> str:
    """The codec for the pieces of a file: what a mark or `detect` leaves open, settled.

    Raises:
        BrokenFile: The encoding is `detect` and cannot be told.
    """
    return settled_codec(lambda: open_beginning(file), encoding, file.name)


def settled_codec(
    open_stream: Callable[[], AbstractContextManager[BinaryIO]],
    encoding: str,
    source: str,
) -> str:
    """The same for anything that can be opened and read, such as a zip's member."""
    name = encoding if encoding == DETECT else codecs.lookup(encoding).name
    if name not in (DETECT, "utf-16", "utf-32"):
        return encoding
    with open_stream() as stream:
        if name != DETECT:
            beginning = stream.read(_BEGINNING_BYTES)
            told = marked(beginning) or wide_codec(beginning) or ""
            # Little-endian unless something tells: nearly all such files are from
            # Windows.
            return told if told.startswith(name) else f"{name}-le"
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
    """The first block that tells encodings apart."""
    while block := stream.read(_SAMPLE_BYTES):
        if not tells_nothing(block):
            return block
    return b""
