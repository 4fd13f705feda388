"""Reads files of remote file systems (`gs://`, `s3://`, `hdfs://`) through Beam.

Beam's file systems raise different exceptions, and some retry for minutes without any
chance of success. This module converts every failure to a `DataError` with the server's
message, so that a failure is never mistaken for a damaged file.
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
from transbeam.pipeline.documents.document import SourceFile

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BLOCK_BYTES = 1 << 16
# Imported late: it takes a second, and local files do not need it.
_BEAM_FILES = "apache_beam.io.filesystems"
# Read-ahead for S3. Beam's 16 MB would be most of the traffic if a file is read in
# units of 4 MB; reading further needs no new request.
_S3_BYTES = 1 << 20

# By scheme: the imports of Beam's file system, and the package to install.
_NEEDED = {
    "gs": (("google.cloud.storage", "google_auth_httplib2"), "transbeam[gcp]"),
    "s3": (("boto3",), "transbeam[aws]"),
    "azfs": (("azure.storage.blob",), "apache-beam[azure]"),
    "hdfs": (("hdfs",), "apache-beam[hadoop]"),
}

_options: tuple[str, ...] = ()
# The options with which this process has reached S3.
_answering: set[tuple[str, ...]] = set()


def use_options(options: Sequence[str]) -> None:
    """Sets Beam's pipeline options, including the options of Beam's file systems.

    Beam itself applies the options neither to file listings before the pipeline runs
    nor to worker processes.

    Args:
        options: Options such as `--s3_endpoint_url=http://localhost:9000`.
    """
    global _options
    _options = tuple(options)


def is_remote(path: str) -> bool:
    """Returns whether a path has a scheme.

    Example:
    >>> is_remote("s3://bucket/a.txt"), is_remote("/tmp/a.txt")
    (True, False)
    """
    return _SCHEME.match(path) is not None


def matching_objects(pattern: str, root: str) -> list[SourceFile]:
    """Lists the files that match a glob, by the rules of local globs.

    Args:
        pattern: As in `file_access.matching_files`.
        root: A prefix of the pattern; the files' names are relative to this prefix.

    Raises:
        DataError: The files cannot be listed.
    """
    wanted = pattern.removeprefix(root).split("/")
    fixed = re.split(r"[\[*?]", pattern)[0]
    with _silent_log(), _as_user_errors(f"data.source: {pattern!r} cannot be listed"):
        system = _file_system(pattern)
        if pattern.startswith("s3://"):
            _ask_s3_once(fixed, is_glob=fixed != pattern)
        # In Beam's own globs `**/` matches at least one folder, and `*` hidden files.
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
    """Returns whether a path matches a pattern by the rules of Python's `glob`.

    An object whose name ends in a slash represents a folder, not a file.

    Args:
        path: The components of a file's path: its folders and its name.
        pattern: The components of the glob.

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
    """Opens a file for random access, without decompression.

    Raises:
        DataError: The file is missing or cannot be read; also raised while reading.
    """
    from apache_beam.io.filesystem import CompressionTypes

    with _as_user_errors(f"{path}: cannot be read"):
        system = _file_system(path)
        if path.startswith("s3://"):
            stream = _s3().open(path, read_buffer_size=_S3_BYTES)
        else:
            stream = system.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    # Google's streams are unbuffered and cannot read lines.
    return cast(BinaryIO, io.BufferedReader(_Object(path, stream), _BLOCK_BYTES))


class _Object(io.RawIOBase):
    """A raw stream that raises failures as `DataError`.

    An `OSError` would be treated as a damaged file, and the documents read so far would
    be kept; but the same command may succeed later.
    """

    def __init__(self, path: str, stream: Any) -> None:
        self._path = path
        self._stream = stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _as_user_errors(f"{self._path}: cannot be read"):
            block = self._stream.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _as_user_errors(f"{self._path}: cannot be read"):
            return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def close(self) -> None:
        self._stream.close()
        super().close()


def object_size(path: str) -> int:
    """Returns the current size of a file in bytes.

    Raises:
        DataError: The file does not exist any more, or its size cannot be read.
    """
    with _as_user_errors(f"{path}: cannot be read"):
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
        if _BEAM_FILES not in sys.modules:  # else its lock may block
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
    """Returns Beam's S3 reader, with a connection that all files share.

    Beam's file system opens a connection for each access, which takes 0.1 seconds.
    Copies of the client share everything except the read position.
    """
    from apache_beam.io.aws import s3io

    return s3io.S3IO(client=copy.copy(_s3_client(_options)))


@lru_cache(maxsize=1)
def _s3_client(options: tuple[str, ...]) -> Any:
    from apache_beam.io.aws.clients.s3 import boto3_client

    return boto3_client.Client(_parsed(options))


def _ask_s3_once(place: str, is_glob: bool) -> None:
    """Sends one request to S3; raises the error of this request, if any.

    Beam treats errors without an HTTP status, such as missing credentials, as transient
    and would retry for ten minutes.
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
        # Beam's 404 for an empty listing is not an error.
        if error.code != 404 or "NoSuchBucket" in str(error):
            raise
    _answering.add(_options)


@contextmanager
def _silent_log() -> Iterator[None]:
    """Suppresses log output while no log file is open yet."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    root.handlers[:] = [logging.NullHandler()]
    try:
        yield
    finally:
        root.handlers[:] = handlers


@contextmanager
def _as_user_errors(what: str) -> Iterator[None]:
    """Converts the exceptions of each file system to user errors."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{what}: {_cause(error)}. Fix the path, the credentials or the rights to "
            "it, and run the same command again"
        ) from error


def _cause(error: BaseException) -> str:
    """Describes the original exception in one line."""
    while details := getattr(error, "exception_details", None):
        error = next(iter(details.values()))
    message = (
        getattr(error, "strerror", None)  # an OSError's str() has its number
        or getattr(error, "message", None)
        or str(error)
        or type(error).__name__
    )
    status = getattr(error, "code", None)
    if status == 404 and "does not exist" not in message:
        message = "it is not there"
    line = " ".join(message.split()).rstrip(".")
    return f"{line} (HTTP {int(status)})" if isinstance(status, int) else line
