"""TFRecord files, one behind the other, that a killed process leaves readable.

A file has `.tmp` behind its name until nothing more comes. Each record goes to the
operating system at once and in one piece, so whoever reads a file that was left, or is
still written, finds every record but perhaps the last one whole.

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
_LENGTH, _CRC = struct.Struct("<Q"), struct.Struct("<I")


def framed(record: bytes) -> bytes:
    """A record as it stands in a file: its length, itself, and a checksum of each."""
    length = _LENGTH.pack(len(record))
    return b"".join((length, _masked_crc(length), record, _masked_crc(record)))


def _masked_crc(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return _CRC.pack(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


class RecordFiles:
    """Writes records; begins a new file when one is large, or was taken away.

    Args:
        prefix: What the names begin with, the folder included.
        name: What comes next in them. Then come the time, the host and the process:
            no two servers write the same file, even into a folder that they share.
        most_bytes: After which a file is complete.
    """

    def __init__(self, prefix: str, name: str, most_bytes: int = _MOST):
        between = "" if prefix.endswith(os.sep) else "-"
        self._beginning = f"{prefix}{between}{name}"
        self._most_bytes = most_bytes
        self._path = ""
        self._file: int | None = None
        self._size = 0

    def write(self, record: bytes) -> None:
        """Appends a record.

        Raises:
            OSError: It cannot be written. Nothing of it stays, and what was written
                before is kept.
        """
        if self._file is not None and not self._is_there():
            self._let_go()
        if self._file is None:
            self._open()
        try:
            self._append(framed(record))
        except OSError:
            self._give_up()
            raise
        if self._size >= self._most_bytes:
            with suppress(OSError):  # it stays under the name it has, and is whole
                self.close()

    def close(self) -> None:
        """Completes the file, if there is one: it gets its name.

        Raises:
            OSError: The disk refuses.
        """
        if self._file is None:
            return
        try:
            os.fsync(self._file)  # a name says that all of it is there
            os.rename(self._path, self._path.removesuffix(UNFINISHED))
        finally:
            self._let_go()

    def _open(self) -> None:
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        host = re.sub(r"[^\w.-]", "_", socket.gethostname())
        self._path = f"{self._beginning}-{now}-{host}-{os.getpid()}{SUFFIX}{UNFINISHED}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        # Texts are private.
        self._file, self._size = os.open(self._path, flags, 0o600), 0

    def _append(self, data: bytes) -> None:
        assert self._file is not None
        left = memoryview(data)
        while left:
            left = left[os.write(self._file, left) :]
        self._size += len(data)

    def _is_there(self) -> bool:
        """Whether what is written can still be found: somebody may have tidied up."""
        assert self._file is not None
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._file))
        except OSError:
            return False

    def _give_up(self) -> None:
        """Keeps what is whole of a file that cannot be written on."""
        assert self._file is not None
        with suppress(OSError):
            os.ftruncate(self._file, self._size)
            if self._size:
                os.rename(self._path, self._path.removesuffix(UNFINISHED))
            else:
                os.unlink(self._path)
        self._let_go()

    def _let_go(self) -> None:
        assert self._file is not None
        file, self._file = self._file, None
        with suppress(OSError):
            os.close(file)
