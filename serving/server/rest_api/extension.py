"""Interface of further paths beside TF Serving's REST API."""

from collections.abc import Mapping
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from transbeam.serving.server.base.status import StatusError


class RestExtension(Protocol):
    """Paths that the server has beside those of TF Serving.

    They share its tokens, limits, access log and OpenAPI document.

    Attributes:
        prefix: The beginning of all paths that need a token.
    """

    prefix: str

    def open_response(self, request: Request, path: str) -> Response | None:
        """Responds to a request that needs no token; None for all others.

        Args:
            request: The request.
            path: The request's path, percent-encoded.
        """
        ...

    async def response(self, request: Request, path: str) -> Response:
        """Responds to a request below `prefix` with a right to predict.

        Args:
            request: The request.
            path: The request's path, percent-encoded.

        Raises:
            StatusError: The request cannot be answered.
        """
        ...

    def error_body(self, failure: StatusError) -> bytes:
        """Formats the JSON body of an error response to a request below `prefix`.

        Args:
            failure: The error of `response`, or of what precedes it, such as a missing
                token.
        """
        ...

    def paths(self) -> Mapping[str, Any]:
        """Returns the OpenAPI path items of all paths that need a token."""
        ...

    def schemas(self) -> Mapping[str, Any]:
        """Returns the OpenAPI component schemas of `paths`."""
        ...
