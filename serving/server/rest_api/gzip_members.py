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
    parts: list[bytes] = []
    offset = size = members = 0
    decoder: Any = None
    while offset < len(body):
        if decoder is None:
            if members and body[offset] == 0:
                if body[offset:].strip(b"\0"):
                    raise invalid("the body goes on behind its gzip")
                break
            members += 1
            if members > _MOST_MEMBERS:
                raise invalid(f"the body has more than {_MOST_MEMBERS:,} gzip members")
            decoder = zlib.decompressobj(_GZIP)
        piece = body[offset : offset + _PIECE]
        try:
            parts.append(decoder.decompress(piece, most - size + 1))
        except zlib.error as error:
            raise invalid(
                f"the body is not gzip, in its member {members}: {error}"
            ) from None
        size += len(parts[-1])
        if size > most:
            return None
        offset += len(piece) - len(decoder.unused_data)
        if decoder.eof:
            decoder = None
    if decoder is not None or not members:
        raise invalid("the body is cut off: its gzip has no end")
    return b"".join(parts)
