"""A stream with a pushback buffer."""

import io
from typing import BinaryIO

from transbeam.pipeline.sources.files.file_access import gaps_in, source_offset

_LONGEST_LINE = 1 << 16


class PutBack:
    r"""Reads a stream of `open_file`; bytes can be pushed back.

    Attributes:
        offset: The number of bytes read, without those pushed back.

    Example:
    >>> lines = PutBack(io.BytesIO(b"one\ntwo\n"))
    >>> lines.put_back(lines.readline())
    >>> lines.readline(), lines.offset
    (b'one\n', 4)
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._gaps = gaps_in(stream)
        self._again = io.BytesIO()
        self.offset = 0

    def readline(self) -> bytes:
        """Reads up to the next line end, at most `_LONGEST_LINE` bytes."""
        line = self._again.readline(_LONGEST_LINE)
        if not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
            line += self._stream.readline(_LONGEST_LINE - len(line))
        self.offset += len(line)
        return line

    def read(self, size: int) -> bytes:
        """Reads at most `size` bytes; none at the end."""
        piece = self._again.read(size) or self._stream.read(size)
        self.offset += len(piece)
        return piece

    def put_back(self, raw: bytes) -> None:
        """Pushes back bytes that were just read; they are read next."""
        self._again = io.BytesIO(raw + self._again.read())
        self.offset -= len(raw)

    def gap_since(self, offset: int) -> int | None:
        """Returns the first gap between `offset` and the current position."""
        inside = (gap for gap in self._gaps if offset < gap < self.offset)
        return next(inside, None)

    def source_offset(self) -> int:
        """Returns the approximate file position; see `file_access.source_offset`."""
        waiting = len(self._again.getbuffer()) - self._again.tell()
        return source_offset(self._stream) - waiting
