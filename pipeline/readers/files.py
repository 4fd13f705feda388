"""Where files lie and how they are opened: local or not, compressed or not.

A path with a scheme (`gs://`, `s3://`) goes through Beam's file systems (`remote`), any
other through the local disk. `.gz`, `.bz2` and `.zst` are decompressed on the way, a
block at a time.
"""

import bz2
import glob
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

from configs.errors import DataError
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
# The largest window `zstd --long` can ask for; the default limit is 2**27.
_LONGEST_ZSTD_WINDOW = 1 << 31

_DECOMPRESSORS: dict[str, tuple[str, Callable[[], Any]]] = {
    ".gz": ("gzip", lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)),
    ".bz2": ("bzip2", bz2.BZ2Decompressor),
    ".zst": (
        "zstandard",
        lambda: zstandard.ZstdDecompressor(
            max_window_size=_LONGEST_ZSTD_WINDOW
        ).decompressobj(),
    ),
}


class BrokenFile(Exception):
    """A file that cannot be read on; what was read of it before stays.

    Args:
        reason: Why, in a few words; rejects are counted by it.
        detail: What more there is to say to whoever looks at the file.
        offset: Where reading ended, as in `Document`.
    """

    def __init__(self, reason: str, detail: str = "", offset: int = 0) -> None:
        super().__init__(reason, detail, offset)
        self.reason = reason
        self.detail = detail
        self.offset = offset


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
    paths = [Path(path) for path in glob.glob(pattern, recursive=True)]
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
    return Path(file.path).suffix in _DECOMPRESSORS


def open_file(file: SourceFile) -> BinaryIO:
    """Opens a file for reading from its start, decompressed.

    Reading it raises `BrokenFile` where a compressed file is cut short or damaged. An
    uncompressed file can also be read from the middle (`seek`).

    Raises:
        OSError: It cannot be opened.
        DataError: The same, of a file elsewhere; also later, while it is read.
    """
    stream = _open_as_it_is(file.path)
    if not is_compressed(file):
        return stream
    name, make = _DECOMPRESSORS[Path(file.path).suffix]
    raw = _Decompressed(stream, name, make)
    return cast(BinaryIO, io.BufferedReader(raw, _BLOCK_BYTES))


def _open_as_it_is(path: str) -> BinaryIO:
    if is_remote(path):
        return open_object(path)
    return open(path, "rb", buffering=_READ_AHEAD)


class _Decompressed(io.RawIOBase):
    """A compressed file of one or more members (frames), one after the other."""

    def __init__(
        self, stream: BinaryIO, name: str, make_decompressor: Callable[[], Any]
    ) -> None:
        self._stream = stream
        self._name = name
        self._make = make_decompressor
        self._decompressor: Any = None
        self._input = b""
        self._output = memoryview(b"")
        self._offset = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            block = self._input or self._stream.read(_BLOCK_BYTES)
            self._input = b""
            if not block:
                if self._decompressor is not None:
                    raise self._broken("truncated", "it ends inside its data")
                return 0
            self._output = memoryview(self._decompress(block))
        size = min(len(buffer), len(self._output))
        buffer[:size] = self._output[:size]
        self._output = self._output[size:]
        self._offset += size
        return size

    def _decompress(self, block: bytes) -> bytes:
        if self._decompressor is None:
            block = block.lstrip(b"\0")  # gzip pads its last member with zeros
            if not block:
                return b""
            self._decompressor = self._make()
        try:
            output = self._decompressor.decompress(block)
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            raise self._broken("damaged", str(error)) from error
        if self._decompressor.eof:
            self._input = self._decompressor.unused_data
            self._decompressor = None
        return output

    def _broken(self, how: str, detail: str) -> BrokenFile:
        return BrokenFile(f"{how} {self._name} stream", detail, self._offset)

    def close(self) -> None:
        self._stream.close()
        super().close()


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
