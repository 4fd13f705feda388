"""Unpacks gzip, of which a body may have several members one behind another.

https://www.rfc-editor.org/rfc/rfc1952#section-2.2. Zeros behind the last member are
passed over, as `gzip` does.
"""

import zlib
from typing import Any

from transbeam.serving.server.base.status import invalid

_GZIP = 16 + zlib.MAX_WBITS
# Behind each member the rest of a piece is copied: so not of the whole body.
_PIECE = 2**16
_MOST_MEMBERS = 1000


def unpack(body: bytes, most: int) -> bytes | None:
    """Unpacks a body.

    Args:
        body: Its members.
        most: Bytes that they may have unpacked, all together.

    Returns:
        Their contents, one behind another; nothing if they have more than `most` bytes.

    Raises:
        Failure: It is no gzip, is cut off, or has very many members.

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
        """Unpacks a piece; returns what comes behind the last member."""
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
