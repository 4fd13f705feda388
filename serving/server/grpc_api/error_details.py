"""Shortens gRPC error messages to a size that every client accepts.

The message travels in a trailer, percent-encoded: a byte that is not plain ASCII takes
three bytes. Clients reject trailers over 8 KB and then report that instead of the
error: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.
"""

from bisect import bisect_right
from itertools import accumulate

_MOST_BYTES = 4096
_MORE = "…"


def _size(character: str) -> int:
    """Returns the size in bytes of a character in a trailer."""
    if " " <= character <= "~" and character != "%":
        return 1
    return 3 * len(character.encode("utf-8", "replace"))


def short_details(message: str, most: int = _MOST_BYTES) -> str:
    """Truncates a message, between characters, to a size in bytes.

    Args:
        message: The error message.
        most: Maximum size in bytes, percent-encoded.

    Example:
    >>> short_details("no such model", 20), short_details("a" * 100, 20)
    ('no such model', 'aaaaaaaaaaa…')
    >>> short_details("ä" * 100, 30)
    'äää…'
    """
    # A character takes at least one byte: no more than `most + 1` need to be counted.
    ends = list(accumulate(map(_size, message[: most + 1])))
    if not ends or ends[-1] <= most:
        return message
    return message[: bisect_right(ends, most - _size(_MORE))] + _MORE
