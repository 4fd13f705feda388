"""Files of other file systems (`gs://`, `s3://`, `hdfs://`), read through Beam's.

Beam's file systems differ in what they raise, and some ask for minutes for what nobody
will answer. Here all that goes wrong is a `DataError` that says what the other side
said, and never looks like a damaged file.
"""

import copy
import glob
import importlib
import io
import logging
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, BinaryIO, cast

from transbeam.configs.base.errors import DataError
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.pipeline.documents.byte_range import SourceFile

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BLOCK_BYTES = 1 << 16
# Not imported above: it takes a second, and local files do without it.
_BEAM_FILES = "apache_beam.io.filesystems"
# Of S3, how far to read ahead. Beam's 16 MB would be most of the traffic where a file
# is read in units of 4 MB; reading on costs no other request.
_S3_BYTES = 1 << 20

# By scheme: what Beam's file system imports, and what to install for it.
_NEEDED = {
    "gs": (("google.cloud.storage", "google_auth_httplib2"), "transbeam[gcp]"),
    "s3": (("boto3",), "transbeam[aws]"),
    "azfs": (("azure.storage.blob",), "apache-beam[azure]"),
    "hdfs": (("hdfs",), "apache-beam[hadoop]"),
}

_options: tuple[str, ...] = ()
# The options with which S3 has answered this process.
_answering: set[tuple[str, ...]] = set()


def use_options(options: Sequence[str]) -> None:
    """Takes the options for Beam, some of which are its file systems'.

    Beam itself hands them neither to whoever lists files before there is a pipeline
    nor to workers that are processes of their own.

    Args:
        options: Such as `--s3_endpoint_url=http://localhost:9000`.
    """
    global _options
    _options = tuple(options)


def is_remote(path: str) -> bool:
    """Whether a path has a scheme.

    Example:
    >>> is_remote("s3://bucket/a.txt"), is_remote("/tmp/a.txt")
    (True, False)
    """
    return _SCHEME.match(path) is not None


def matching_objects(pattern: str, root: str) -> list[SourceFile]:
    """The files a glob names, by the rules that local globs have.

    Args:
        pattern: As in `file_access.matching_files`.
        root: What the pattern begins with; the files' names begin behind it.

    Raises:
        DataError: They cannot be listed.
    """
    wanted = pattern.removeprefix(root).split("/")
    fixed = re.split(r"[\[*?]", pattern)[0]
    with _silent_log(), _failures_told(f"data.source: {pattern!r} cannot be listed"):
        system = _file_system(pattern)
        if pattern.startswith("s3://"):
            _ask_s3_once(fixed, is_glob=fixed != pattern)
        # In Beam's own globs `**/` is at least one folder, and `*` takes hidden files.
        (found,) = system.match([pattern if fixed == pattern else f"{fixed}**"])
    return [
        SourceFile(
            name=entry.path.removeprefix(root),
            path=entry.path,
            size=entry.size_in_bytes,
            modified=round(entry.last_updated_in_seconds * 10**9),
        )
        for entry in found.metadata_list
        if is_match(entry.path.removeprefix(root).split("/"), wanted)
    ]


def is_match(path: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether Python's `glob` would find a file.

    An object whose name ends in a slash stands for a folder, and is no file.

    Args:
        path: Its folders and its name.
        pattern: The glob's.

    Example:
    >>> is_match(["deep", "er", "a.txt"], ["**", "*.txt"])
    True
    >>> is_match([".hidden"], ["*"])
    False
    """
    if not pattern:
        return not path
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        visible = 0
        while visible < len(path) and not path[visible].startswith("."):
            visible += 1
        if not rest:
            return visible == len(path) and bool(path) and bool(path[-1])
        return any(is_match(path[skip:], rest) for skip in range(visible + 1))
    if not path or not path[0]:
        return False
    if not glob.has_magic(first):
        return path[0] == first and is_match(path[1:], rest)
    if path[0].startswith(".") and not first.startswith("."):
        return False
    return fnmatchcase(path[0], first) and is_match(path[1:], rest)


def open_object(path: str) -> BinaryIO:
    """Opens a file as it is, for reading anywhere in it.

    Raises:
        DataError: Then or while reading: it is not there, or cannot be read.
    """
    from apache_beam.io.filesystem import CompressionTypes

    with _failures_told(f"{path}: cannot be read"):
        system = _file_system(path)
        if path.startswith("s3://"):
            stream = _s3().open(path, read_buffer_size=_S3_BYTES)
        else:
            stream = system.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    # Google's streams have no buffer to find a line in.
    return cast(BinaryIO, io.BufferedReader(_Object(path, stream), _BLOCK_BYTES))


class _Object(io.RawIOBase):
    """A file that is being read, and tells what goes wrong in the user's terms.

    As an `OSError` it would pass for a damaged file, of which what was read before
    stays; but the same command may well get the rest tomorrow.
    """

    def __init__(self, path: str, stream: Any) -> None:
        self._path = path
        self._stream = stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _failures_told(f"{self._path}: cannot be read"):
            block = self._stream.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _failures_told(f"{self._path}: cannot be read"):
            return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def close(self) -> None:
        self._stream.close()
        super().close()


def object_size(path: str) -> int:
    """The size of a file as it is at this moment, in bytes.

    Raises:
        DataError: It is not there any more, or cannot be asked about.
    """
    with _failures_told(f"{path}: cannot be read"):
        system = _file_system(path)
        if path.startswith("s3://"):
            if _options not in _answering:
                _ask_s3_once(path, is_glob=False)
            return _s3().size(path)
        return system.metadata(path).size_in_bytes


def _file_system(path: str) -> Any:
    scheme = path.partition("://")[0]
    modules, extra = _NEEDED.get(scheme, ((), ""))
    try:
        if _BEAM_FILES not in sys.modules:  # else not to wait for another import
            quiet_import(_BEAM_FILES)
        for module in modules:
            importlib.import_module(module)
        from apache_beam.io.filesystems import FileSystems

        FileSystems.set_options(_parsed(_options))
        return FileSystems.get_filesystem(path)
    except (ImportError, ValueError) as error:
        raise DataError(
            f"data.source: {path}: nothing installed here reads {scheme}:// paths. "
            + (
                f"Run: pip install '{extra}'"
                if extra
                else f"Beam reads {', '.join(f'{name}://' for name in _NEEDED)}"
            )
        ) from error


@lru_cache(maxsize=1)
def _parsed(options: tuple[str, ...]) -> Any:
    from apache_beam.options.pipeline_options import PipelineOptions

    return PipelineOptions(list(options))


def _s3() -> Any:
    """Beam's reader of S3, with a connection that all files share.

    Beam's file system makes one for each look at a file, in a tenth of a second. What
    the copies do not share is how far they have read.
    """
    from apache_beam.io.aws import s3io

    return s3io.S3IO(client=copy.copy(_s3_client(_options)))


@lru_cache(maxsize=1)
def _s3_client(options: tuple[str, ...]) -> Any:
    from apache_beam.io.aws.clients.s3 import boto3_client

    return boto3_client.Client(_parsed(options))


def _ask_s3_once(place: str, is_glob: bool) -> None:
    """Raises what S3 answers, if that is an error.

    Beam takes all that has no HTTP status for a hiccup, such as missing credentials,
    and would ask again for ten minutes.
    """
    from apache_beam.io.aws import s3io
    from apache_beam.io.aws.clients.s3 import messages

    client = _s3().client
    where = s3io.parse_s3_path(place, object_optional=is_glob)
    try:
        if is_glob:
            client.list(messages.ListRequest(*where))
        else:
            client.get_object_metadata(messages.GetRequest(*where))
    except messages.S3ClientError as error:
        # Beam's 404 for a list with nothing in it is no error.
        if error.code != 404 or "NoSuchBucket" in str(error):
            raise
    _answering.add(_options)


@contextmanager
def _silent_log() -> Iterator[None]:
    """Keeps warnings off a screen that no log file takes them from yet."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    root.handlers[:] = [logging.NullHandler()]
    try:
        yield
    finally:
        root.handlers[:] = handlers


@contextmanager
def _failures_told(what: str) -> Iterator[None]:
    """Each file system's own exceptions as the user's error."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{what}: {_cause(error)}. Mend the path, the credentials or the rights to "
            "it, and run the same command again"
        ) from error


def _cause(error: BaseException) -> str:
    """What was raised first, in one line."""
    while details := getattr(error, "exception_details", None):
        error = next(iter(details.values()))
    told = (
        getattr(error, "strerror", None)  # an OSError's str() has its number
        or getattr(error, "message", None)
        or str(error)
        or type(error).__name__
    )
    status = getattr(error, "code", None)
    if status == 404 and "does not exist" not in told:
        told = "it is not there"
    line = " ".join(told.split()).rstrip(".")
    return f"{line} (HTTP {int(status)})" if isinstance(status, int) else line
