"""HTTP/1.1 protocol of one connection, with limits on size and idle time.

uvicorn's httptools protocol reads a request line, headers, trailers and chunk
extensions of any length before it calls an application. This protocol counts bytes as
they arrive, before authentication and routing, and enforces timeouts: `look` is called
periodically and closes connections whose client sends or reads nothing for too long.
"""

import asyncio
import time
from collections.abc import Callable
from enum import Enum
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from transbeam.serving.server.connections.connection_limits import ConnectionLimits
from transbeam.serving.server.http_server.refusals import (
    Refused,
    check_framing,
    has_body,
    refusal,
)

# Bytes fed to the parser at once; the limits are checked after each piece.
_PIECE = 2**14
# Bytes fed at once while the preceding pipelined request is not answered yet.
_PIECE_AHEAD = 2**10
# Time that a refused connection stays readable: closed at once, a TCP reset could reach
# the client before the response.
_LINGER_SECONDS = 1.0


class Phase(Enum):
    """State of a connection between two calls of its parser."""

    HEAD = "a request's headers are awaited"
    WORK = "a request is being read or answered"
    REST = "a request is answered, and the rest of its body awaited"
    IDLE = "the next request is awaited"
    LAST = "the client is refused, and its close awaited"


class LimitedProtocol(HttpToolsProtocol):
    """An HTTP connection with limits on request size and idle time.

    Args:
        config: uvicorn's configuration.
        server_state: uvicorn's server state.
        app_state: uvicorn's application state.
        limits: Limits of the connection.
        body_seconds: Time in which the rest of a request body must arrive after the
            response was sent.
        refused: Called with the reason of each refusal.
    """

    def __init__(
        self,
        config: Any,
        server_state: Any,
        app_state: dict[str, Any],
        *,
        limits: ConnectionLimits,
        body_seconds: float,
        refused: Callable[[str], None],
    ):
        super().__init__(config, server_state, app_state)
        self._limits = limits
        self._body_seconds = body_seconds
        self._count_refused = refused
        self._phase = Phase.HEAD
        self._since = time.monotonic()
        # Bytes fed since the parser last completed a header, a chunk or a message.
        self._pending = 0
        self._head_bytes = 0
        self._headers_seen = 0
        self._in_body = False
        # Data received after a pipelined request that waits for its turn.
        self._deferred = b""
        self._last_response: bytes | None = None
        self.url = b""
        self._unread, self._unread_since = 0, 0.0
        self._wire: Any = None

    # --- Bytes ---

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.flow = _DeferringFlow(transport, lambda: bool(self._deferred))
        # With TLS, the underlying TCP transport: only that one counts unsent bytes.
        secure = getattr(transport, "_ssl_protocol", None)
        self._wire = getattr(secure, "_transport", None) or transport
        self._enter(Phase.HEAD)

    def data_received(self, data: bytes) -> None:
        if self._phase is Phase.LAST or self._last_response is not None:
            return  # after a refusal all further data is discarded
        if self._deferred:
            self._deferred += data
            return
        self._unset_keepalive_if_required()
        if self._phase is Phase.IDLE:
            self._enter(Phase.HEAD)
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                if self.pipeline:
                    self._deferred = bytes(view)
                    self.flow.pause_reading()
                    return
                ahead = self._is_answering() and not self._in_body
                view = view[self._feed(view[: _PIECE_AHEAD if ahead else _PIECE]) :]
        except Refused as refused:
            self._refuse(refused)

    def _feed(self, piece: memoryview) -> int:
        """Feeds bytes to the parser; returns the number of bytes that it consumed.

        Raises:
            Refused: The bytes are not HTTP, or a limit is exceeded.
        """
        parser: Any = self.parser
        self._pending += len(piece)
        read = len(piece)
        try:
            parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            # Upgrades are not supported: the remaining bytes are the next request.
            read = upgrade.args[0]
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, Refused):
                raise error.__context__ from None
            raise Refused(400, "This is no valid HTTP request", "no_http") from None
        # The bytes since the last event may belong to both a path and a header.
        if self._pending > 2 * self._limits.line_bytes + _PIECE:
            raise self._long_line()
        return read

    # --- Parser callbacks ---

    def on_message_begin(self) -> None:
        self._head_bytes = self._headers_seen = 0
        self._in_body = False
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.line_bytes:
            raise self._long_line()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._pending = 0
        limits = self._limits
        line = len(name) + len(b": ") + len(value)
        self._head_bytes += line
        self._headers_seen += 1
        if line > limits.line_bytes:
            raise self._long_line()
        if self._head_bytes + len(self.url) > limits.head_bytes:
            raise Refused(
                431,
                f"The headers are longer than {limits.head_bytes:,} bytes in all",
                "head_bytes",
            )
        if self._headers_seen > limits.headers:
            raise Refused(
                431, f"There are more than {limits.headers:,} headers", "headers"
            )
        if not self._in_body:  # a trailer must not pass for a header, such as a token
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        parser: Any = self.parser
        self._pending = 0
        check_framing(parser.get_http_version(), self.headers)
        if parser.should_upgrade() and has_body(self.headers):
            # The parser would skip the body and parse it as the next request.
            raise Refused(
                400,
                "Upgrade is not spoken here; send the request without it",
                "no_http",
            )
        self._in_body = True
        if not self._is_answering():
            self._enter(Phase.WORK)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._pending = 0
        super().on_body(body)

    def on_chunk_header(self) -> None:
        self._pending = 0

    def on_chunk_complete(self) -> None:
        self._pending = 0

    def on_message_complete(self) -> None:
        self._pending = 0
        self._in_body = False
        super().on_message_complete()
        if self._phase is Phase.REST:
            self._enter(Phase.IDLE)

    def _long_line(self) -> Refused:
        most = self._limits.line_bytes
        status, line = 431, "A header"
        if self._in_body:
            line = "A trailer or a chunk's first line"
        elif not self._headers_seen and len(self.url) > most:
            status, line = 414, "The path"
        return Refused(status, f"{line} is longer than {most:,} bytes", "line_bytes")

    # --- Responses ---

    def _is_answering(self) -> bool:
        """Returns True if a request with complete headers has no full response yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() or self._is_answering():
            return
        if self._last_response is not None:
            self._send_last(self._last_response)
            return
        self._enter(Phase.REST if self._in_body else Phase.IDLE)
        if self._deferred:
            deferred, self._deferred = self._deferred, b""
            self._enter(Phase.HEAD)
            self._unset_keepalive_if_required()
            # Scheduled, so as not to run inside the callback of the finished response.
            self.loop.call_soon(self._parse_deferred, deferred)

    def _parse_deferred(self, deferred: bytes) -> None:
        if not self.transport.is_closing() and self.parser is not None:
            self._parse(deferred)
            if not self._deferred and not self.pipeline:
                self.flow.resume_reading()

    def _refuse(self, refused: Refused) -> None:
        self._count_refused(refused.reason)
        last = self._refusal(refused.status, refused.message)
        self._deferred = b""
        cycle = self.cycle
        if self._in_body and self._is_answering():
            # The request in progress is malformed: signal a disconnect to its handler.
            cycle.disconnected = True
            cycle.message_event.set()
            if not (self.pipeline and self.pipeline[0][0] is cycle):
                self._send_last(b"" if cycle.response_started else last)
                return
            self.pipeline.popleft()
        if self._is_answering():  # earlier pipelined requests are answered first
            self._last_response = last
        else:
            self._send_last(last)

    def _refusal(self, status: int, message: str) -> bytes:
        return refusal(status, message, self.server_state.default_headers)

    def _send_last(self, response: bytes) -> None:
        self._unset_keepalive_if_required()
        self._enter(Phase.LAST)
        self.flow.resume_reading()
        self.transport.write(response)
        if response and self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    # --- Timeouts ---

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._since = time.monotonic()

    def look(self, now: float) -> None:
        """Closes the connection if its client was idle for too long.

        Args:
            now: Current time of `time.monotonic`.
        """
        limits = self._limits
        if self._reads_nothing(now):
            self._count_refused("unread_seconds")
            self.transport.abort()
            return
        if self.transport.is_closing():
            return
        silent = now - self._since
        if self._phase is Phase.HEAD and silent > limits.head_seconds:
            self._count_refused("head_seconds")
            if self._pending or self._headers_seen:
                message = f"The headers did not come within {limits.head_seconds:g} s"
                self._send_last(self._refusal(408, message))
            else:  # no request was started, so no response is due
                self.transport.close()
        elif self._phase is Phase.REST and silent > self._body_seconds:
            self._count_refused("body_seconds")
            self.transport.close()
        elif self._phase is Phase.IDLE and silent > limits.idle_seconds:
            self.transport.close()
        elif self._phase is Phase.LAST and silent > _LINGER_SECONDS:
            self.transport.abort()

    def _reads_nothing(self, now: float) -> bool:
        """Returns True if the client has read no buffered output for too long."""
        unread = self._wire.get_write_buffer_size()
        if not unread or unread < self._unread or not self._unread:
            self._unread_since = now
        self._unread = unread
        return bool(unread) and now - self._unread_since > self._limits.unread_seconds


class _DeferringFlow(FlowControl):
    """Flow control that pauses reading while deferred data waits to be parsed.

    uvicorn's own flow control resumes reading whenever an application checks for a
    disconnect.
    """

    def __init__(self, transport: asyncio.Transport, is_deferring: Callable[[], bool]):
        super().__init__(transport)
        self._is_deferring = is_deferring

    def resume_reading(self) -> None:
        if not self._is_deferring():
            super().resume_reading()
