"""Shortens gRPC error messages to a size that every client accepts.

The message travels in a trailer, percent-encoded: a byte that is not plain ASCII takes
three bytes. Clients reject trailers over 8 KB and then report that instead of the
error: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.
"""

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
    if len(message) * 12 <= most:  # 12 bytes: a 4-byte character, percent-encoded
        return message
    room, kept = most - _size(_MORE), 0
    sizes = (_size(character) for character in message)
    total = 0
    for size in sizes:
        total += size
        if total <= room:
            kept += 1
        if total > most:
            return message[:kept] + _MORE
    return message
