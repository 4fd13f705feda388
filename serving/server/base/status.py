"""Why a request is refused: a code that both doors have a word for, and a text."""

from grpc import StatusCode

# What TF Serving's REST API answers for each code; 500 for the others.
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
_BY_NUMBER = {code.value[0]: code for code in StatusCode}


class StatusError(Exception):
    """A request that is not answered.

    Attributes:
        code: One of gRPC's.
        message: For the client.
        http: The status over REST.
        reason: The limit that a request is beyond, for the metrics.

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
        # HTTP has finer words for some: 413 for a body that is too large.
        self.http = http or _HTTP.get(code, 500)
        self.reason = reason


def invalid(message: str) -> StatusError:
    """What is wrong with the request itself."""
    return StatusError(StatusCode.INVALID_ARGUMENT, message)


def from_number(number: int, message: str) -> StatusError:
    """A failure by the number that TensorFlow and gRPC give the code.

    Example:
    >>> from_number(8, "no room").http
    429
    """
    return StatusError(_BY_NUMBER.get(number, StatusCode.UNKNOWN), message)
