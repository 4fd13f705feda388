"""A stream some of whose bytes can be read again."""

import io
from typing import BinaryIO

from transbeam.pipeline.sources.files.file_access import gaps_in, source_offset

_LONGEST_LINE = 1 << 16


class PutBack:
    r"""Reads a stream of `open_file`, and takes bytes back.

    Attributes:
        offset: Bytes read, less those put back.

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
        """Up to the next line end, or the first bytes of a line without end."""
        line = self._again.readline(_LONGEST_LINE)
        if not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
            line += self._stream.readline(_LONGEST_LINE - len(line))
        self.offset += len(line)
        return line

    def read(self, size: int) -> bytes:
        """Some of the next bytes, at most `size`; none at the end."""
        piece = self._again.read(size) or self._stream.read(size)
        self.offset += len(piece)
        return piece

    def put_back(self, raw: bytes) -> None:
        """Takes bytes that were just read; they are read next."""
        self._again = io.BytesIO(raw + self._again.read())
        self.offset -= len(raw)

    def gap_since(self, offset: int) -> int | None:
        """The first gap within what was read from `offset` on."""
        inside = (gap for gap in self._gaps if offset < gap < self.offset)
        return next(inside, None)

    def source_offset(self) -> int:
        """The place in the file, about; see `file_access.source_offset`."""
        waiting = len(self._again.getbuffer()) - self._again.tell()
        return source_offset(self._stream) - waiting
