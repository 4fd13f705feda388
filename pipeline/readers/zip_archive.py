"""Plain text files inside zip archives.

A member is named `archive.zip/member.txt`, and offsets count from its own beginning.
"""

import fnmatch
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from configs.sources import ZipSource
from pipeline.documents import Document, Rejected
from pipeline.readers.decoding import settled_codec
from pipeline.readers.files import BrokenFile, open_file
from pipeline.readers.plain_text import decoded, pieces
from pipeline.spans import Span

_ENCRYPTED = 0x1  # a flag of the zip format (APPNOTE.TXT, 4.4.4)
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)


def read(span: Span, source: ZipSource) -> Iterator[Document | Rejected]:
    """The documents of the members asked for, in the archive's order.

    Raises:
        BrokenFile: It is no zip archive, or it has no such member.
    """
    with open_file(span.file) as stream:
        try:
            archive = zipfile.ZipFile(stream)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise BrokenFile("not a zip archive", str(error)) from error
        members = [
            member
            for member in archive.infolist()
            if not member.is_dir()
            and fnmatch.fnmatchcase(member.filename, source.members)
        ]
        if not members:
            raise BrokenFile(f"no member matches {source.members!r}")
        for member in members:
            name = f"{span.file.name}/{member.filename}"
            yield from _member(archive, member, name, source)


def _member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, source: ZipSource
) -> Iterator[Document | Rejected]:
    if member.flag_bits & _ENCRYPTED:
        yield Rejected("encrypted zip member", name, 0, "")
        return

    def open_member() -> BinaryIO:
        return cast(BinaryIO, archive.open(member))

    try:
        codec = settled_codec(open_member, source.encoding)
        with open_member() as stream:
            for offset, raw in pieces(stream, source.document, codec):
                yield decoded(raw, codec, name, offset)
    except BrokenFile as broken:
        yield Rejected(broken.reason, name, broken.offset, broken.detail)
    except NotImplementedError as error:
        yield Rejected("compression that cannot be read", name, 0, str(error))
    except _DAMAGE as error:
        yield Rejected("damaged zip member", name, 0, str(error))
