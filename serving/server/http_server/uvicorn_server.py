"""A uvicorn server with connection limits."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.http_server.acceptor import Acceptor
from transbeam.serving.server.http_server.http1_protocol import LimitedProtocol

_BACKLOG = 2048


class HttpServer(uvicorn.Server):
    """A uvicorn server that leaves signal handling to its caller.

    The caller also has to stop the gRPC server.

    Args:
        app: The ASGI application.
        settings: Settings of the server, with the connection limits.
        refused: Called with the reason of each refusal.
    """

    def __init__(
        self, app: ASGIApp, settings: ServerSettings, refused: Callable[[str], None]
    ):
        self._limits = settings.connections
        self._body_seconds = settings.limits.body_seconds
        self._refused = refused
        super().__init__(
            uvicorn.Config(
                app,
                http=LimitedProtocol,
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,  # uvicorn's would configure logging of the process
                log_level=logging.ERROR,
                access_log=False,
                server_header=False,
                timeout_keep_alive=self._limits.idle_seconds,  # type: ignore[arg-type]
                timeout_graceful_shutdown=int(settings.drain_seconds),
                ssl_certfile=settings.certificate,
                ssl_keyfile=settings.key,
            )
        )

    def connections(self) -> int:
        """Returns the number of open connections."""
        return sum(server.connections() for server in getattr(self, "servers", ()))

    async def serve_until_exit(self, listening: socket.socket) -> None:
        """Serves on a bound socket until `should_exit` is set."""
        looking = asyncio.create_task(self._look())
        try:
            await self.serve([listening])
        finally:
            looking.cancel()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts accepting connections; see `uvicorn.Server`."""

        def protocol() -> LimitedProtocol:
            return LimitedProtocol(
                self.config,
                self.server_state,
                {},
                limits=self._limits,
                body_seconds=self._body_seconds,
                refused=self._refused,
            )

        self.servers: list[Any] = [
            Acceptor(
                listening,
                protocol,
                lambda: len(self.server_state.connections),
                self._limits,
                self._refused,
                self.config.ssl,
                _BACKLOG,
            )
            for listening in sockets or []
        ]
        self.started = True

    async def _look(self) -> None:
        """Periodically closes connections that have been idle for too long."""
        shortest = min(
            self._limits.head_seconds,
            self._limits.idle_seconds,
            self._limits.unread_seconds,
            self._body_seconds,
        )
        pause = min(1.0, max(0.05, shortest / 4))
        while True:
            await asyncio.sleep(pause)
            now = time.monotonic()
            for connection in list(self.server_state.connections):
                connection.look(now)  # type: ignore[union-attr] (all LimitedProtocol)
            for server in getattr(self, "servers", ()):
                server.look(now)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signal handlers unchanged."""
        yield
