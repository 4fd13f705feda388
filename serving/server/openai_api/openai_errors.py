"""Errors in the form of OpenAI's API.

https://platform.openai.com/docs/guides/error-codes: `{"error": {"message", "type",
"param", "code"}}`. The official client selects its exception by the HTTP status.
"""

import json
from http import HTTPStatus

from grpc import StatusCode

from transbeam.serving.server.base.status import StatusError

UNSUPPORTED = "unsupported_parameter"
MODEL_NOT_FOUND = "model_not_found"
TOO_LONG = "context_length_exceeded"

_TYPES: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}


class OpenAIRequestError(StatusError):
    """An error that is due to a field of a request.

    Attributes:
        param: Name of the field, such as `messages[0].content`; None if there is none.
        error_code: Code of the error for programs; None if there is none.
    """

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        error_code: str | None = None,
        code: StatusCode = StatusCode.INVALID_ARGUMENT,
        http: int | None = None,
    ):
        super().__init__(code, message, http=http)
        self.param = param
        self.error_code = error_code


def bad_field(param: str, expected: str) -> OpenAIRequestError:
    """Creates the error for a field whose value is not the expected one.

    Example:
    >>> bad_field("n", "a whole number from 1").message
    'n: expected a whole number from 1'
    """
    return OpenAIRequestError(f"{param}: expected {expected}", param=param)


def unsupported(param: str, reason: str) -> OpenAIRequestError:
    """Creates the error for a field that would change the output and is not supported.

    Example:
    >>> unsupported("tools", "the model calls no tools").message
    'tools: is not supported: the model calls no tools'
    """
    return OpenAIRequestError(
        f"{param}: is not supported: {reason}", param=param, error_code=UNSUPPORTED
    )


def openai_error_body(failure: StatusError) -> bytes:
    """Formats an error as JSON, on one line.

    Example:
    >>> openai_error_body(bad_field("n", "1")).decode()
    '{"error": {"message": "n: expected 1", "type": "invalid_request_error", "param":
    "n", "code": null}}'
    """
    kind = _TYPES.get(failure.http, "invalid_request_error")
    if failure.http >= HTTPStatus.INTERNAL_SERVER_ERROR:
        kind = "server_error"
    error = {
        "message": failure.message,
        "type": kind,
        "param": getattr(failure, "param", None),
        "code": getattr(failure, "error_code", None),
    }
    return json.dumps({"error": error}, ensure_ascii=False).encode("utf-8", "replace")
