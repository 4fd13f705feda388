"""Writes a sequence of TFRecord files that stay readable if the process is killed.

A file name ends in `.tmp` until the file is complete. Each record is passed to the
operating system immediately and in a single write, so a reader of an unfinished file
finds every record intact, except perhaps the last one.

References:
    - [TFRecord](https://www.tensorflow.org/tutorials/load_data/tfrecord), its format
"""

import os
import re
import socket
import struct
from contextlib import suppress
from datetime import UTC, datetime

import google_crc32c

SUFFIX, UNFINISHED = ".tfrecord", ".tmp"
_MOST = 64 * 2**20
_CLOSED = -1  # in place of a file descriptor
_LENGTH, _CRC = struct.Struct("<Q"), struct.Struct("<I")


def encode_tfrecord(record: bytes) -> bytes:
    """Encodes a TFRecord: the record's length and the record, each with a checksum."""
    length = _LENGTH.pack(len(record))
    return b"".join((length, _masked_crc(length), record, _masked_crc(record)))


def _masked_crc(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return _CRC.pack(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


class RecordFiles:
    """Writes records; starts a new file if the current one is large or was removed.

    Args:
        prefix: Prefix of the file names, folder included.
        name: The model's name, which follows the prefix in the file names. The file
            names also contain the time, the host and the process id, so that servers
            that share a folder never write to the same file.
        most_bytes: Size at which a file is completed.
    """

    def __init__(self, prefix: str, name: str, most_bytes: int = _MOST):
        between = "" if prefix.endswith(os.sep) else "-"
        self._beginning = f"{prefix}{between}{name}"
        self._most_bytes = most_bytes
        self._path = ""
        self._file = _CLOSED
        self._size = 0

    def write(self, record: bytes) -> None:
        """Appends a record.

        Raises:
            OSError: The write failed. The partial record is removed; earlier records
                are kept.
        """
        if self._file != _CLOSED and not self._exists():
            self._close_file()
        if self._file == _CLOSED:
            self._open()
        left = memoryview(encode_tfrecord(record))
        size = self._size + len(left)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            self._give_up()
            raise
        self._size = size
        if self._size >= self._most_bytes:
            with suppress(OSError):  # the file keeps its name and is intact
                self.close()

    def close(self) -> None:
        """Completes the current file, if any, and gives it its final name.

        Raises:
            OSError: The file cannot be synced or renamed.
        """
        if self._file == _CLOSED:
            return
        try:
            os.fsync(self._file)  # the final name implies that all data is on disk
            os.rename(self._path, self._path.removesuffix(UNFINISHED))
        finally:
            self._close_file()

    def _open(self) -> None:
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        host = re.sub(r"[^\w.-]", "_", socket.gethostname())
        self._path = f"{self._beginning}-{now}-{host}-{os.getpid()}{SUFFIX}{UNFINISHED}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        # Texts are private: only the owner may read the file.
        self._file, self._size = os.open(self._path, flags, 0o600), 0

    def _exists(self) -> bool:
        """Returns True if the file still exists under its name."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._file))
        except OSError:
            return False

    def _give_up(self) -> None:
        """Keeps the intact records of a file after a failed write."""
        with suppress(OSError):
            os.ftruncate(self._file, self._size)
            if self._size:
                os.rename(self._path, self._path.removesuffix(UNFINISHED))
            else:
                os.unlink(self._path)
        self._close_file()

    def _close_file(self) -> None:
        file, self._file = self._file, _CLOSED
        with suppress(OSError):
            os.close(file)
