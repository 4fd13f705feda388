"""Request ids and trace contexts, with a record of each call for the access log.

The response has the client's `x-request-id`, or a generated id if there is none, and
the client's `traceparent` of W3C Trace Context (https://www.w3.org/TR/trace-context/).
The code that processes a request adds details to `current()`, but never the request's
texts.
"""

import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REQUEST_ID, TRACE = "x-request-id", "traceparent"
# Only ids and trace contexts that match are copied into logs and headers.
_ID = re.compile(r"[!-~]{1,128}")
_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass
class RequestContext:
    """Record of one request.

    Attributes:
        id: The client's request id, or a generated one.
        trace: The client's `traceparent`, if any.
        door: `REST` or `GRPC`.
        api: API method, such as `Predict`; empty for requests without a model.
        model: Name of the model; empty if there is no such model.
        version: Version that processed the request.
        signature: Signature that was run.
        rows: Number of rows of the request.
        tokens: Number of generated tokens.
        waited: Seconds that the first batched rows of the request were queued.
        ran: Seconds of all TensorFlow runs for the request.
        status: HTTP status code, or name of the gRPC status.
        seconds: Total duration.
    """

    id: str
    trace: str | None
    door: str
    api: str = ""
    model: str = ""
    version: int | None = None
    signature: str | None = None
    rows: int | None = None
    tokens: int | None = None
    waited: float | None = None
    ran: float | None = None
    status: str = ""
    seconds: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def from_headers(cls, door: str, headers: Mapping[str, Any]) -> "RequestContext":
        """Creates the record of a request from its headers.

        Example:
        >>> headers = {"x-request-id": "a1", "traceparent": "no trace"}
        >>> call = RequestContext.from_headers("REST", headers)
        >>> call.id, call.trace
        ('a1', None)
        """
        given, trace = (str(headers.get(name, "")) for name in (REQUEST_ID, TRACE))
        own = given if _ID.fullmatch(given) else uuid.uuid4().hex
        return cls(own, trace if _TRACE.fullmatch(trace) else None, door)

    def response_headers(self) -> dict[str, str]:
        """Returns the headers to add to the response."""
        trace = {} if self.trace is None else {TRACE: self.trace}
        return {REQUEST_ID: self.id, **trace}

    def batch(self, waited: float, ran: float) -> None:
        """Adds the times of a batch that contained some of the request's rows."""
        self.waited = waited if self.waited is None else self.waited
        self.ran = ran if self.ran is None else self.ran + ran


_CURRENT: ContextVar[RequestContext | None] = ContextVar("call", default=None)
# Called with each finished call.
Over = Callable[[RequestContext], None]


def current() -> RequestContext:
    """Returns the current request's record, or a temporary record if there is none."""
    return _CURRENT.get() or RequestContext("", None, "")


@contextmanager
def recorded(
    door: str, headers: Mapping[str, Any], over: Over
) -> Iterator[RequestContext]:
    """Makes a request the current one until the context exits.

    Args:
        door: `REST` or `GRPC`.
        headers: Headers of the request.
        over: Called with the `RequestContext` of the finished request.
    """
    call = RequestContext.from_headers(door, headers)
    _CURRENT.set(call)  # context variable of this request's task
    try:
        yield call
    finally:
        call.seconds = time.monotonic() - call.began
        over(call)


class IdentifiedApp:
    """ASGI middleware that assigns request ids.

    Args:
        app: The wrapped application.
        over: Called with the `RequestContext` of each finished request.
    """

    def __init__(self, app: ASGIApp, over: Over):
        self._app = app
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                call.status = str(message["status"])
                MutableHeaders(scope=message).update(call.response_headers())
            await send(message)

        with recorded("REST", Headers(scope=scope), self._over) as call:
            await self._app(scope, receive, sending)
