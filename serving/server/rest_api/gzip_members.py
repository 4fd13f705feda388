"""Decompresses gzip bodies, which may consist of several members.

https://www.rfc-editor.org/rfc/rfc1952#section-2.2. Zero padding after the last member
is ignored, as `gzip` does.
"""

import zlib
from typing import Any

from transbeam.serving.server.base.status import invalid

_GZIP = 16 + zlib.MAX_WBITS
# zlib copies the unused input after each member: feed pieces, not the whole body.
_PIECE = 2**16
_MOST_MEMBERS = 1000


def unpack(body: bytes, most: int) -> bytes | None:
    """Decompresses a body.

    Args:
        body: One or more gzip members.
        most: Maximum decompressed size in bytes of all members together.

    Returns:
        The concatenated contents, or None if they exceed `most` bytes.

    Raises:
        StatusError: The body is not gzip, is truncated, or has too many members.

    Example:
    >>> import gzip
    >>> unpack(gzip.compress(b"ab") + gzip.compress(b"c"), most=3)
    b'abc'
    """
    members = _Members(most)
    for start in range(0, len(body), _PIECE):
        rest = members.read(body[start : start + _PIECE])
        if members.size > most:
            return None
        if rest:
            if (rest + body[start + _PIECE :]).strip(b"\0"):
                raise invalid("the body goes on behind its gzip")
            break
    return members.content()


class _Members:
    def __init__(self, most: int):
        self.size = 0
        self._most = most
        self._count = 0
        self._parts: list[bytes] = []
        self._open: Any = None

    def read(self, piece: bytes) -> bytes:
        """Decompresses a piece; returns the bytes after the last member."""
        while piece and self.size <= self._most:
            if self._open is None:
                if self._count and piece[0] == 0:
                    return piece
                self._open = self._begin()
            try:
                part = self._open.decompress(piece, self._most - self.size + 1)
            except zlib.error as error:
                raise invalid(
                    f"the body is not gzip, in its member {self._count}: {error}"
                ) from None
            self._parts.append(part)
            self.size += len(part)
            piece = self._open.unused_data
            if self._open.eof:
                self._open = None
        return b""

    def content(self) -> bytes:
        if self._open is not None or not self._count:
            raise invalid("the body is cut off: its gzip has no end")
        return b"".join(self._parts)

    def _begin(self) -> Any:
        self._count += 1
        if self._count > _MOST_MEMBERS:
            raise invalid(f"the body has more than {_MOST_MEMBERS:,} gzip members")
        return zlib.decompressobj(_GZIP)
