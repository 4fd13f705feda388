"""Texts of errors over gRPC, short enough for every client.

A status's text travels in a trailer, in which each byte that is no plain ASCII takes
three. Clients refuse trailers beyond 8 KB, and then report that instead of the error:
https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.
"""

_MOST_BYTES = 4096
_MORE = "…"


def _size(character: str) -> int:
    """Bytes that a character takes in a trailer."""
    if " " <= character <= "~" and character != "%":
        return 1
    return 3 * len(character.encode("utf-8", "replace"))


def short_details(message: str, most: int = _MOST_BYTES) -> str:
    """A message, cut at a character if it would take more bytes than that.

    Args:
        message: What went wrong.
        most: Bytes, percent-encoded.

    Example:
    >>> short_details("no such model", 20), short_details("a" * 100, 20)
    ('no such model', 'aaaaaaaaaaa…')
    >>> short_details("ä" * 100, 30)
    'äää…'
    """
    if len(message) * 12 <= most:  # no character takes more
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
