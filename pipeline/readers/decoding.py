"""Bytes to text: encodings declared, or told from the bytes.

The rule of `detect`, the same on every machine:

1. A byte order mark decides.
2. What is valid UTF-8 is UTF-8; text in any other encoding hardly ever is.
3. Anything else is taken for Windows-1252 (Latin-1 with printable characters instead
   of controls), the commonest encoding of Western European text, as browsers do. Where
   that cannot be (bytes it has no character for, or more than a third of the letters
   outside ASCII, as in Cyrillic or Chinese text) the encoding cannot be told and must
   be declared.
"""

import codecs
import string
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import BinaryIO

from configs.encodings import DETECT
from pipeline.cleaning import excerpt
from pipeline.documents import Rejected
from pipeline.readers.damage import BrokenFile
from pipeline.readers.files import open_beginning
from pipeline.spans import SourceFile

_SAMPLE_BYTES = 1 << 20
# UTF-32's mark begins with that of UTF-16, so it is looked for first.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ASCII_LETTERS = string.ascii_letters.encode()
_HIGH_BYTES = bytes(range(128, 256))


def decode(raw: bytes, encoding: str) -> str:
    r"""The text that bytes stand for, without a byte order mark.

    Args:
        raw: A whole file, or a piece of one cut where a character ends.
        encoding: A codec's name, or `detect`. For the pieces of one file, take
            `codec_of` the file, so that all are read alike.

    Raises:
        UnicodeDecodeError: They are no text in that encoding.

    Example:
    >>> decode(b"\xef\xbb\xbfcaf\xc3\xa9", "utf-8"), decode(b"caf\xe9", "detect")
    ('café', 'café')
    """
    codec = detect(raw) if encoding == DETECT else encoding
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
    Rejected(reason='not UTF-8', source='a.txt', offset=103, excerpt='\\xe9')
    """
    raw = error.object
    reason = f"not {encoding.upper()}"
    if encoding == DETECT:
        reason = "encoding cannot be told"
    elif b"\0" in raw and not encoding.lower().startswith(("utf-16", "utf-32")):
        reason = "binary"
    shown = excerpt(raw[error.start :])
    return Rejected(reason, source, offset + error.start, shown, size=len(raw))


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
    pipeline.readers.damage.BrokenFile: ('UTF-16 by its byte order mark, not utf-8', ...
    """
    marked = (_marked(beginning) or "").upper()[:6]
    known = codecs.lookup(codec).name.upper()
    if marked in ("UTF-16", "UTF-32") and not known.startswith(marked):
        raise BrokenFile(
            f"{marked} by its byte order mark, not {codec}",
            f"write data.source.encoding: {marked.lower()}, or {DETECT}",
        )


def codec_of(file: SourceFile, encoding: str) -> str:
    """The codec for the pieces of a file: what a mark or `detect` leaves open, settled.

    Raises:
        BrokenFile: The encoding is `detect` and cannot be told.
    """
    return settled_codec(lambda: open_beginning(file), encoding)


def settled_codec(
    open_stream: Callable[[], AbstractContextManager[BinaryIO]], encoding: str
) -> str:
    """The same for anything that can be opened and read, such as a zip's member."""
    name = encoding if encoding == DETECT else codecs.lookup(encoding).name
    if name not in (DETECT, "utf-16", "utf-32"):
        return encoding
    with open_stream() as stream:
        if name != DETECT:
            # Without a mark, little-endian: nearly all such files are from Windows.
            return _marked(stream.read(4)) or f"{name}-le"
        sample = _sample(stream)
    try:
        return detect(sample, cut=len(sample) == _SAMPLE_BYTES)
    except UnicodeDecodeError as error:
        detail = f"declare the source's encoding; {excerpt(error.object)}"
        raise BrokenFile("encoding cannot be told", detail) from error


def _sample(stream: BinaryIO) -> bytes:
    """The first block that tells encodings apart."""
    while block := stream.read(_SAMPLE_BYTES):
        if not block.isascii():
            return block
    return b""


def detect(sample: bytes, *, cut: bool = False) -> str:
    r"""The codec that the rule of this module settles on.

    Args:
        sample: A file's bytes, or its first ones.
        cut: Whether it may end within a character.

    Raises:
        UnicodeDecodeError: The encoding cannot be told.

    Example:
    >>> detect("naïve".encode("utf-8")), detect("naïve".encode("latin-1"))
    ('utf-8', 'cp1252')
    """
    if marked := _marked(sample):
        return marked
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=not cut)
        return "utf-8"
    except UnicodeDecodeError:
        pass
    sample.decode("cp1252")
    ascii_letters = len(sample) - len(sample.translate(None, _ASCII_LETTERS))
    high = len(sample) - len(sample.translate(None, _HIGH_BYTES))
    if 2 * high > ascii_letters:
        what = "too few ASCII letters for Western European text"
        raise UnicodeDecodeError(DETECT, sample, 0, len(sample), what)
    return "cp1252"


def _marked(sample: bytes) -> str | None:
    return next((codec for mark, codec in _MARKS if sample.startswith(mark)), None)
