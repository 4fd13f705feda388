"""Server-sent events for streaming text generation.

https://html.spec.whatwg.org/multipage/server-sent-events.html. Each generated part of
the text is an event of the default type, `{"text": ..., "token_id": ...}`. The last
event is a `done` event with the statistics of the whole text, or an `error` event.
"""

import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import asdict
from typing import Any, Generic, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from transbeam.serving.base.stream_events import FinalEvent, StreamPart
from transbeam.serving.server.base.status import StatusError, internal_error
from transbeam.serving.server.rest_api.request_body import unless_gone

_log = logging.getLogger("transbeam.serve")

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    # Otherwise a proxy such as nginx would buffer the events.
    "X-Accel-Buffering": "no",
}


_Part = TypeVar("_Part")


class EventStream(Response, Generic[_Part]):
    """A response that sends the parts of a text as they are generated.

    The response ends when the client disconnects.

    Args:
        first: The first part.
        others: The remaining parts.
        encode: Formats a part as an event.
        encode_error: Formats an error of `others` as the last event.
    """

    def __init__(
        self,
        first: _Part,
        others: AsyncGenerator[_Part],
        encode: Callable[[_Part], bytes],
        encode_error: Callable[[StatusError], bytes],
    ):
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._first = first
        self._others = others
        self._encode = encode
        self._encode_error = encode_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(StatusError):  # the client disconnected
            await unless_gone(receive, self._send_all(send))

    async def _send_all(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        async with aclosing(self._others) as others:
            await send({**start, "headers": self.raw_headers})
            try:
                await _send(send, self._encode(self._first))
                async for part in others:
                    await _send(send, self._encode(part))
            except StatusError as failure:
                await _send(send, self._encode_error(failure))
            except Exception:
                _log.exception("stream")
                await _send(send, self._encode_error(internal_error()))
        await _send(send, b"", more=False)


def event(part: StreamPart | FinalEvent) -> bytes:
    r"""Formats a part of the text as a server-sent event.

    Example:
    >>> event(StreamPart(" and", 7))
    b'data: {"text": " and", "token_id": 7}\n\n'
    """
    return _event("done" if isinstance(part, FinalEvent) else "", asdict(part))


def error_event(failure: StatusError) -> bytes:
    """Formats an error as a server-sent event."""
    return _event("error", {"error": failure.message})


def _event(kind: str, fields: dict[str, Any]) -> bytes:
    name = f"event: {kind}\n" if kind else ""
    # JSON without indentation has no line breaks, which would end the data field.
    return f"{name}data: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})
