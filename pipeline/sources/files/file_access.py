"""Where files lie and how they are opened: local or not, compressed or not.

A path with a scheme (`gs://`, `s3://`) goes through Beam's file systems (`remote`), any
other through the local disk. Compressed ones are unpacked on the way (`compression`),
also those that have only the first bytes of such a file, but not the name.
"""

import io
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast

from transbeam.configs.base.errors import DataError
from transbeam.pipeline.documents.byte_range import SourceFile
from transbeam.pipeline.sources.files.compression import (
    COMPRESSIONS,
    Compression,
    DecompressedText,
)
from transbeam.pipeline.sources.files.damage import BrokenFile, Damage
from transbeam.pipeline.sources.files.globs import (
    expand,
    literal_where_there,
    only_folders,
    unescaped,
)
from transbeam.pipeline.sources.files.remote_files import (
    is_remote,
    matching_objects,
    object_size,
    open_object,
)

_BLOCK_BYTES = 1 << 16
# At each read of the disk the threads of a process change places, which takes time.
_READ_AHEAD = 1 << 20
_LONGEST_BEGINNING = 16


def matching_files(pattern: str) -> list[SourceFile]:
    """The files a glob names, in any order; their names start below its fixed part.

    Args:
        pattern: A path, with `*`, `?`, `[...]` and (for folders at any depth) `**`. A
            folder or file that is there by such a name is meant itself. `~` is the
            user's folder.

    Raises:
        DataError: A file's size cannot be asked for, a bucket cannot be listed,
            nothing here can read paths of that scheme, only folders match, or what
            matches is no file or a link to nothing.
    """
    pattern = pattern.removeprefix("file://")
    if is_remote(pattern):
        return matching_objects(pattern, _fixed_root(pattern))
    escaped = literal_where_there(os.path.expanduser(pattern))
    root = _fixed_root(escaped)
    paths = [Path(path) for path in expand(escaped)]
    if paths and all(path.is_dir() for path in paths):
        raise only_folders(pattern, paths)
    with _reported(pattern):
        return [
            _listed(path, path.as_posix().removeprefix(root))
            for path in paths
            if not path.is_dir()
        ]


def _listed(path: Path, name: str) -> SourceFile:
    """A file with its size; reading anything else might never end.

    Raises:
        DataError: It is a FIFO, a socket or a device, or a link to nothing.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if not path.is_symlink():
            raise
        raise DataError(
            f"data.source: {path} is a link to {os.readlink(path)}, which cannot be "
            f"followed ({error.strerror}). Mend the link or take it out of the corpus"
        ) from error
    if not stat.S_ISREG(mode):
        raise DataError(
            f"data.source: {path} is no file that can be read twice (a FIFO, a socket "
            "or a device). Write what comes from it into a file, or narrow the path"
        )
    return SourceFile.at(path, name)


def _fixed_root(pattern: str) -> str:
    """The folder a glob starts from: `a/b/` for `a/b/*.txt` and for `a/b/c.txt`."""
    if not is_remote(pattern):
        pattern = Path(pattern).as_posix()
    folders = pattern.split("/")[:-1]
    names = [unescaped(name) for name in folders]
    fixed = next((i for i, name in enumerate(names) if name is None), None)
    return "".join(f"{name}/" for name in names[:fixed])


def is_compressed(file: SourceFile) -> bool:
    """Whether a file is read through a decompressor, and so never from the middle.

    Its name says so; or its first bytes do, for a file of this machine.

    Raises:
        OSError: It cannot be opened.
    """
    return _compression(file) is not None


def _compression(file: SourceFile) -> Compression | None:
    """The compression of a file, whether its name says so or not."""
    suffix = Path(file.path).suffix.lower()
    if suffix in COMPRESSIONS:
        return COMPRESSIONS[suffix]
    if is_remote(file.path):
        return None  # because each look is a request
    with open(file.path, "rb", buffering=0) as stream:
        beginning = stream.read(_LONGEST_BEGINNING)
    # No text begins so: the bytes are no UTF-8, or hold what is never written.
    kinds = (k for k in COMPRESSIONS.values() if k.beginning.match(beginning))
    return next(kinds, None)


@contextmanager
def open_file(file: SourceFile) -> Iterator[BinaryIO]:
    """Opens a file for reading from its start, unpacked.

    Of a compressed file that is damaged or cut short all is read that can be (see
    `gaps_in`), and leaving the `with` block raises `BrokenFile`. An uncompressed file
    can also be read from the middle (`seek`).

    A `BrokenFile` raised in the block that does not say how much was not read is taken
    to mean all that follows, and all of the file if it is about its beginning.

    Raises:
        BrokenFile: Something was lost of what has been read.
        OSError: It cannot be opened.
        DataError: The same, of a file elsewhere; also later, while it is read.
    """
    with open_beginning(file) as stream:
        raw = getattr(stream, "raw", None)
        unpacked = raw if isinstance(raw, DecompressedText) else None
        try:
            yield stream
        except BrokenFile as broken:
            left = file.size - source_offset(stream)
            told = [_with_unread(damage, file, left) for damage in broken.damage]
            if unpacked:
                # What ends too early seems damaged to whoever reads what is in it.
                told = [*unpacked.damage, *([] if unpacked.cut else told)]
            broken.damage = tuple(told)
            raise
        if unpacked and unpacked.damage:
            raise BrokenFile.from_damage(unpacked.damage)


@contextmanager
def open_seekable(file: SourceFile) -> Iterator[BinaryIO]:
    """Opens a file of a kind that is read from its end, as `open_file` does.

    Raises:
        BrokenFile: It is compressed as a whole, and so can only be read in order.
    """
    with open_file(file) as stream:
        if not stream.seekable():
            what = "its kind is read from its end, so unpack the file before"
            raise BrokenFile("compressed as a whole", what, unread=file.size)
        yield stream


def _with_unread(damage: Damage, file: SourceFile, left: int) -> Damage:
    """Damage with the bytes it is; `left` are those of the file not yet read."""
    if damage.unread is not None:
        return damage
    # At the beginning nothing was used, though a line may be all of the file.
    return replace(damage, unread=left if damage.offset else file.size)


def open_beginning(file: SourceFile) -> BinaryIO:
    """Opens a file to look at its beginning, whatever is wrong with the rest."""
    compression = _compression(file)
    stream = _open_as_it_is(file.path)
    if compression is None:
        return stream
    unpacked = DecompressedText(stream, compression, file.size)
    return cast(BinaryIO, io.BufferedReader(unpacked, _BLOCK_BYTES))


def source_offset(stream: BinaryIO) -> int:
    """Counts the bytes of the file that have been read; about, if it is compressed.

    Args:
        stream: As `open_file` gave it.
    """
    raw = getattr(stream, "raw", None)
    offset = stream.tell()
    return raw.source_offset(offset) if isinstance(raw, DecompressedText) else offset


def gaps_in(stream: BinaryIO) -> Sequence[int]:
    """Places where something is missing in what was read, in bytes from the start.

    The list grows while the stream is read. It may be of any stream; only compressed
    files have gaps.
    """
    raw = getattr(stream, "raw", None)
    return raw.gaps if isinstance(raw, DecompressedText) else ()


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
