"""Reads plain text files inside zip archives.

A member is named `archive.zip/member.txt`, and offsets are relative to the start of the
member.
"""

import fnmatch
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from transbeam.configs.schema.sources import ZipSourceConfig
from transbeam.pipeline.documents.document import BrokenFile, Document, Rejected, Span
from transbeam.pipeline.sources.decoding.text_decoding import resolve_codec
from transbeam.pipeline.sources.files.file_access import open_seekable
from transbeam.pipeline.sources.readers.plain_text import decoded, pieces

_ENCRYPTED = 0x1  # a flag of the zip format (APPNOTE.TXT, 4.4.4)
_BEGINNING = b"PK\x03\x04"
_BLOCK_BYTES = 1 << 20
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    UnicodeDecodeError,  # of a name
)


def read(span: Span, source: ZipSourceConfig) -> Iterator[Document | Rejected]:
    """Yields the documents of the matching members, in the archive's order.

    Raises:
        BrokenFile: The file is not a zip archive, or no member matches.
    """
    with open_seekable(span.file) as stream:
        try:
            archive = zipfile.ZipFile(stream)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise BrokenFile(
                "not a zip archive",
                str(error),
                unread=span.size,
                doubtful=begins_like_zip(stream),
            ) from error
        members = [
            member
            for member in archive.infolist()
            if not member.filename.endswith("/")  # `is_dir` fails without a name
            and fnmatch.fnmatchcase(member.filename, source.members)
        ]
        if not members:
            what = f"no member matches {source.members!r}"
            raise BrokenFile(what, unread=span.size)
        for member in members:
            name = f"{span.file.name}/{member.filename}"
            yield from _member(archive, member, name, source)


def _member(
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    name: str,
    source: ZipSourceConfig,
) -> Iterator[Document | Rejected]:
    packed = member.compress_size
    if member.flag_bits & _ENCRYPTED:
        yield Rejected("encrypted zip member", name, 0, "", unread=packed)
        return

    def open_member() -> BinaryIO:
        return cast(BinaryIO, archive.open(member))

    try:
        _check(open_member())
        codec = resolve_codec(open_member, source.encoding, name)
        with open_member() as stream:
            for offset, raw in pieces(stream, source.document, codec):
                yield decoded(raw, codec, name, offset)
    except BrokenFile as broken:
        lost = broken.damage[-1]
        yield Rejected(lost.reason, name, lost.offset, lost.detail, unread=packed)
    except NotImplementedError as error:
        reason = "compression that cannot be read"
        yield Rejected(reason, name, 0, str(error), unread=packed)
    except _DAMAGE as error:
        yield Rejected("damaged zip member", name, 0, str(error), unread=packed)


def _check(member: BinaryIO) -> None:
    """Verifies the checksum of a member before it is used, by reading all of it."""
    with member:
        while member.read(_BLOCK_BYTES):
            pass


def begins_like_zip(stream: BinaryIO) -> bool:
    """Returns whether a file begins like a zip archive, even if its end is missing."""
    stream.seek(0)
    return stream.read(len(_BEGINNING)) == _BEGINNING
