"""Errors of requests, with their gRPC and HTTP status codes."""

from bisect import bisect_right
from itertools import accumulate

from grpc import StatusCode

# HTTP status codes of TF Serving's REST API for gRPC codes; 500 for the others.
_HTTP = {
    StatusCode.OK: 200,
    StatusCode.CANCELLED: 499,
    StatusCode.INVALID_ARGUMENT: 400,
    StatusCode.FAILED_PRECONDITION: 400,
    StatusCode.OUT_OF_RANGE: 400,
    StatusCode.UNAUTHENTICATED: 401,
    StatusCode.PERMISSION_DENIED: 403,
    StatusCode.NOT_FOUND: 404,
    StatusCode.ALREADY_EXISTS: 409,
    StatusCode.ABORTED: 409,
    StatusCode.RESOURCE_EXHAUSTED: 429,
    StatusCode.UNIMPLEMENTED: 501,
    StatusCode.UNAVAILABLE: 503,
    StatusCode.DEADLINE_EXCEEDED: 504,
}
# Size of an error message over gRPC. It travels in a trailer, percent-encoded. Clients
# reject trailers over 8 KB, and then report that instead of the error:
# https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.
_MOST_BYTES = 4096
_MORE = "…"
_BY_NUMBER = {code.value[0]: code for code in StatusCode}


class StatusError(Exception):
    """An error that is returned as the response to a request.

    Attributes:
        code: The gRPC status code.
        message: The message for the client.
        http: The HTTP status code.
        reason: Name of the exceeded limit, for the metrics; None for other errors.

    Example:
    >>> failure = StatusError(StatusCode.NOT_FOUND, "Servable not found")
    >>> failure.http, str(failure)
    (404, 'NOT_FOUND: Servable not found')
    """

    def __init__(
        self,
        code: StatusCode,
        message: str,
        *,
        http: int | None = None,
        reason: str | None = None,
    ):
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message
        # Some errors have a more specific HTTP status, such as 413 for a large body.
        self.http = http or _HTTP.get(code, 500)
        self.reason = reason


def invalid(message: str) -> StatusError:
    """Creates an INVALID_ARGUMENT error."""
    return StatusError(StatusCode.INVALID_ARGUMENT, message)


def internal_error() -> StatusError:
    """Creates the INTERNAL error of a bug, whose details are in the server's log."""
    return StatusError(StatusCode.INTERNAL, "Internal error; see the server's log")


def from_number(number: int, message: str) -> StatusError:
    """Creates an error from the number of its gRPC or TensorFlow code.

    Example:
    >>> from_number(8, "no room").http
    429
    """
    return StatusError(_BY_NUMBER.get(number, StatusCode.UNKNOWN), message)


def short_details(message: str, most: int = _MOST_BYTES) -> str:
    """Truncates a message, between characters, to a size in bytes.

    Args:
        message: The error message.
        most: Maximum size of the percent-encoded message, in bytes.

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


def _size(character: str) -> int:
    """Returns the size in bytes of a character, percent-encoded."""
    if " " <= character <= "~" and character != "%":
        return 1
    return 3 * len(character.encode("utf-8", "replace"))
