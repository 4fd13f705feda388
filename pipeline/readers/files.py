"""Where files lie and how they are opened: local or not, compressed or not.

A path with a scheme (`gs://`, `s3://`) goes through Beam's file systems (`remote`), any
other through the local disk. Compressed ones are unpacked on the way (`compression`).
"""

import glob
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast

from configs.errors import DataError
from pipeline.readers.compression import COMPRESSIONS, Unpacked
from pipeline.readers.damage import BrokenFile
from pipeline.readers.globs import expand
from pipeline.readers.remote import (
    is_remote,
    matching_objects,
    object_size,
    open_object,
)
from pipeline.spans import SourceFile

_BLOCK_BYTES = 1 << 16
# At each read of the disk the threads of a process change places, which takes time.
_READ_AHEAD = 1 << 20


def matching_files(pattern: str) -> list[SourceFile]:
    """The files a glob names, in any order; their names start below its fixed part.

    Args:
        pattern: A path, with `*`, `?`, `[...]` and (for folders at any depth) `**`.

    Raises:
        DataError: A file's size cannot be asked for, a bucket cannot be listed, or
            nothing here can read paths of that scheme.
    """
    pattern = pattern.removeprefix("file://")
    root = _fixed_root(pattern)
    if is_remote(pattern):
        return matching_objects(pattern, root)
    paths = [Path(path) for path in expand(pattern)]
    with _reported(pattern):
        return [
            SourceFile.at(path, path.as_posix().removeprefix(root))
            for path in paths
            if not path.is_dir()
        ]


def _fixed_root(pattern: str) -> str:
    """The folder a glob starts from: `a/b/` for `a/b/*.txt` and for `a/b/c.txt`."""
    if not is_remote(pattern):
        pattern = Path(pattern).as_posix()
    folders = pattern.split("/")[:-1]
    fixed = next((i for i, name in enumerate(folders) if glob.has_magic(name)), None)
    return "".join(f"{name}/" for name in folders[:fixed])


def is_compressed(file: SourceFile) -> bool:
    """Whether a file is read through a decompressor, and so never from the middle."""
    return Path(file.path).suffix in COMPRESSIONS


@contextmanager
def open_file(file: SourceFile) -> Iterator[BinaryIO]:
    """Opens a file for reading from its start, unpacked.

    Of a compressed file that is damaged or cut short all is read that can be (see
    `gaps_in`), and leaving the `with` block raises `BrokenFile`. An uncompressed file
    can also be read from the middle (`seek`).

    A `BrokenFile` raised in the block that does not say how much was not read is taken
    to mean all that follows.

    Raises:
        BrokenFile: Something was lost of what has been read.
        OSError: It cannot be opened.
        DataError: The same, of a file elsewhere; also later, while it is read.
    """
    with open_beginning(file) as stream:
        raw = getattr(stream, "raw", None)
        unpacked = raw if isinstance(raw, Unpacked) else None
        try:
            yield stream
        except BrokenFile as broken:
            left = file.size - source_offset(stream)
            told = [
                replace(damage, unread=left) if damage.unread is None else damage
                for damage in broken.damage
            ]
            if unpacked:
                # What ends too early seems damaged to whoever reads what is in it.
                told = [*unpacked.damage, *([] if unpacked.cut else told)]
            broken.damage = tuple(told)
            raise
        if unpacked and unpacked.damage:
            raise BrokenFile.of(unpacked.damage)


def open_beginning(file: SourceFile) -> BinaryIO:
    """Opens a file to look at its beginning, whatever is wrong with the rest."""
    stream = _open_as_it_is(file.path)
    if not is_compressed(file):
        return stream
    unpacked = Unpacked(stream, COMPRESSIONS[Path(file.path).suffix], file.size)
    return cast(BinaryIO, io.BufferedReader(unpacked, _BLOCK_BYTES))


def source_offset(stream: BinaryIO) -> int:
    """How many bytes of the file have been read, about, if it is compressed.

    Args:
        stream: As `open_file` gave it.
    """
    raw = getattr(stream, "raw", None)
    offset = stream.tell()
    return raw.source_offset(offset) if isinstance(raw, Unpacked) else offset


def gaps_in(stream: BinaryIO) -> Sequence[int]:
    """Where something is missing in what was read so far, in bytes from the start.

    The list grows while the stream is read. It may be of any stream; only compressed
    files have gaps.
    """
    raw = getattr(stream, "raw", None)
    return raw.gaps if isinstance(raw, Unpacked) else ()


def _open_as_it_is(path: str) -> BinaryIO:
    if is_remote(path):
        return open_object(path)
    return open(path, "rb", buffering=_READ_AHEAD)


def size_now(file: SourceFile) -> int:
    """The size of a file as it is at this moment, in bytes.

    Raises:
        OSError: It is not there any more.
        DataError: The same, of a file elsewhere.
    """
    if is_remote(file.path):
        return object_size(file.path)
    return Path(file.path).stat().st_size


@contextmanager
def _reported(pattern: str) -> Iterator[None]:
    """What goes wrong while files are listed, as the user's error."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"data.source: {pattern!r} cannot be listed: {error}. Mend the path or the "
            "rights to it"
        ) from error
