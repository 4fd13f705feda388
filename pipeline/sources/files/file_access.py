"""Lists and opens files: local or remote, compressed or not.

Paths with a scheme (`gs://`, `s3://`) are read through Beam's file systems
(`remote_files`), others from the local disk. Compressed files are decompressed on the
fly (`compression`); a compressed file is recognized by its name or, if it is local, by
its first bytes.
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
from transbeam.pipeline.documents.document import BrokenFile, Damage, SourceFile
from transbeam.pipeline.sources.files.compression import (
    COMPRESSIONS,
    Compression,
    DecompressedText,
)
from transbeam.pipeline.sources.files.globs import (
    escape_existing,
    expand,
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
# Each disk read releases the GIL, and switching threads takes time.
_READ_AHEAD = 1 << 20
_LONGEST_BEGINNING = 16


def matching_files(pattern: str) -> list[SourceFile]:
    """Lists the files that match a glob, with names relative to the glob's fixed part.

    Args:
        pattern: A path, with `*`, `?`, `[...]` and (for folders at any depth) `**`. An
            existing folder or file of exactly this name takes precedence. `~` is the
            home folder.

    Raises:
        DataError: A file's size cannot be read, a bucket cannot be listed, the scheme
            is not supported by the installed packages, only folders match, or a match
            is not a regular file or is a broken link.
    """
    pattern = pattern.removeprefix("file://")
    if is_remote(pattern):
        return matching_objects(pattern, _fixed_root(pattern))
    escaped = escape_existing(os.path.expanduser(pattern))
    root = _fixed_root(escaped)
    paths = [Path(path) for path in expand(escaped)]
    if paths and all(path.is_dir() for path in paths):
        raise only_folders(pattern, paths)
    try:
        return [
            _listed(path, path.as_posix().removeprefix(root))
            for path in paths
            if not path.is_dir()
        ]
    except OSError as error:
        raise DataError(
            f"data.source: {pattern!r} cannot be listed: {error}. Fix the path or "
            "the rights to it"
        ) from error


def _listed(path: Path, name: str) -> SourceFile:
    """Returns a regular file with its size; rejects FIFOs, sockets and devices.

    Raises:
        DataError: The path is a FIFO, a socket, a device or a broken link.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if not path.is_symlink():
            raise
        raise DataError(
            f"data.source: {path} is a link to {os.readlink(path)}, which cannot be "
            f"followed ({error.strerror}). Fix the link or take it out of the corpus"
        ) from error
    if not stat.S_ISREG(mode):
        raise DataError(
            f"data.source: {path} is no file that can be read twice (a FIFO, a socket "
            "or a device). Write what comes from it into a file, or narrow the path"
        )
    return SourceFile.at(path, name)


def _fixed_root(pattern: str) -> str:
    """Returns the fixed folder of a glob: `a/b/` for `a/b/*.txt` and `a/b/c.txt`."""
    if not is_remote(pattern):
        pattern = Path(pattern).as_posix()
    folders = pattern.split("/")[:-1]
    names = [unescaped(name) for name in folders]
    fixed = next((i for i, name in enumerate(names) if name is None), None)
    return "".join(f"{name}/" for name in names[:fixed])


def is_compressed(file: SourceFile) -> bool:
    """Returns whether a file is compressed, and so cannot be read from the middle.

    The compression is recognized by the file's name or, for local files, by the first
    bytes.

    Raises:
        OSError: The file cannot be opened.
    """
    return _compression(file) is not None


def _compression(file: SourceFile) -> Compression | None:
    """Returns the compression of a file, by its name or its first bytes."""
    suffix = Path(file.path).suffix.lower()
    if suffix in COMPRESSIONS:
        return COMPRESSIONS[suffix]
    if is_remote(file.path):
        return None  # because each read is a request
    with open(file.path, "rb", buffering=0) as stream:
        beginning = stream.read(_LONGEST_BEGINNING)
    # Text never begins like this: the bytes are invalid UTF-8 or control characters.
    kinds = (k for k in COMPRESSIONS.values() if k.beginning.match(beginning))
    return next(kinds, None)


@contextmanager
def open_file(file: SourceFile) -> Iterator[BinaryIO]:
    """Opens a file for reading from its start, decompressed.

    A damaged or truncated compressed file is read as far as possible (see `gaps_in`),
    and leaving the `with` block raises `BrokenFile`. An uncompressed file can also be
    read from the middle (`seek`).

    If a `BrokenFile` that is raised in the block has no number of unread bytes, the
    number is set to the bytes left in the file, or to the file's size if the damage is
    at offset 0.

    Raises:
        BrokenFile: The part of the file that was read contains damage.
        OSError: The file cannot be opened.
        DataError: A remote file cannot be opened or read; also raised while reading.
    """
    with open_beginning(file) as stream:
        raw = getattr(stream, "raw", None)
        unpacked = raw if isinstance(raw, DecompressedText) else None
        try:
            yield stream
        except BrokenFile as broken:
            left = file.size - source_offset(stream)
            damage = [_with_unread(damage, file, left) for damage in broken.damage]
            if unpacked:
                # To a reader of the content, a truncated file seems damaged.
                damage = [*unpacked.damage, *([] if unpacked.cut else damage)]
            broken.damage = tuple(damage)
            raise
        if unpacked and unpacked.damage:
            raise BrokenFile.from_damage(unpacked.damage)


@contextmanager
def open_seekable(file: SourceFile) -> Iterator[BinaryIO]:
    """Opens a file like `open_file` for formats that are read from the end.

    Raises:
        BrokenFile: The file is compressed as a whole, so it can only be read in order.
    """
    with open_file(file) as stream:
        if not stream.seekable():
            what = "its kind is read from its end, so unpack the file before"
            raise BrokenFile("compressed as a whole", what, unread=file.size)
        yield stream


def _with_unread(damage: Damage, file: SourceFile, left: int) -> Damage:
    """Fills in `damage.unread` if None; `left` is the number of bytes not yet read."""
    if damage.unread is not None:
        return damage
    # At offset 0 nothing was used, even if the whole file is one line and was read.
    return replace(damage, unread=left if damage.offset else file.size)


def open_beginning(file: SourceFile) -> BinaryIO:
    """Opens a file to read its beginning, without reporting later damage."""
    compression = _compression(file)
    stream = _open_as_it_is(file.path)
    if compression is None:
        return stream
    unpacked = DecompressedText(stream, compression, file.size)
    return cast(BinaryIO, io.BufferedReader(unpacked, _BLOCK_BYTES))


def source_offset(stream: BinaryIO) -> int:
    """Returns the number of file bytes read; approximate for compressed files.

    Args:
        stream: A stream from `open_file`.
    """
    raw = getattr(stream, "raw", None)
    offset = stream.tell()
    return raw.source_offset(offset) if isinstance(raw, DecompressedText) else offset


def gaps_in(stream: BinaryIO) -> Sequence[int]:
    """Returns the byte offsets of gaps in the text that was read.

    The list grows while the stream is read. Any stream is accepted; only compressed
    files have gaps.
    """
    raw = getattr(stream, "raw", None)
    return raw.gaps if isinstance(raw, DecompressedText) else ()


def _open_as_it_is(path: str) -> BinaryIO:
    if is_remote(path):
        return open_object(path)
    return open(path, "rb", buffering=_READ_AHEAD)


def size_now(file: SourceFile) -> int:
    """Returns the current size of a file in bytes.

    Raises:
        OSError: A local file does not exist any more.
        DataError: A remote file does not exist any more.
    """
    if is_remote(file.path):
        return object_size(file.path)
    return Path(file.path).stat().st_size
