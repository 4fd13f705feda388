"""Accepts HTTP connections up to a limit.

asyncio's own server accepts an unlimited number of connections. Once the process has no
free file descriptors, asyncio logs the error once per backlog slot, every second.
"""

import asyncio
import errno
import logging
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from transbeam.serving.server.connections.connection_limits import ConnectionLimits
from transbeam.serving.server.http_server.refusals import refusal

_AT_ONCE = 64  # connections accepted before other tasks run
_PAUSE_SECONDS = 1.0  # after the system was out of descriptors or memory
_LOG_SECONDS = 60.0
_OUT_OF = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
# Refused connections that stay open briefly after the 503 response: closed at once, a
# TCP reset could reach the client before the response.
_MOST_LINGERING = 64
_LINGER_SECONDS = 1.0
_TLS_SHUTDOWN_SECONDS = 1.0

_log = logging.getLogger("transbeam.serve")


class Acceptor:
    """Accepts connections on a listening socket in place of an `asyncio.Server`.

    Args:
        listening: Bound socket.
        make: Creates the protocol of a connection.
        count: Returns the number of established connections.
        limits: Maximum number of connections and time limit of a TLS handshake.
        refused: Called with the reason of each refusal.
        context: TLS context; None without TLS.
        backlog: Maximum number of connections that wait to be accepted.
    """

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], asyncio.Protocol],
        count: Callable[[], int],
        limits: ConnectionLimits,
        refused: Callable[[str], None],
        context: ssl.SSLContext | None,
        backlog: int,
    ):
        self._listening = listening
        self._make = make
        self._count = count
        self._limits = limits
        self._refused = refused
        self._context = context
        self._greeting: set[asyncio.Task[None]] = set()
        self._lingering: deque[tuple[float, socket.socket]] = deque()
        self._logged = -_LOG_SECONDS
        self._loop = asyncio.get_running_loop()
        self._later: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        listening.listen(backlog)
        self._resume()

    def connections(self) -> int:
        """Returns the number of open connections, TLS handshakes included."""
        return self._count() + len(self._greeting)

    def close(self) -> None:
        """Stops accepting connections."""
        if self._later is not None:
            self._later.cancel()
        self._loop.remove_reader(self._listening.fileno())
        self._listening.close()
        for task in self._greeting:
            task.cancel()
        while self._lingering:
            self._lingering.popleft()[1].close()

    async def wait_closed(self) -> None:
        """Waits until the setup of all accepted connections is finished."""
        await asyncio.gather(*self._greeting, return_exceptions=True)

    def look(self, now: float) -> None:
        """Closes refused connections whose grace period is over."""
        while self._lingering and now - self._lingering[0][0] > _LINGER_SECONDS:
            self._lingering.popleft()[1].close()

    def _resume(self) -> None:
        self._later = None
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF:
                    raise
                self._pause(error)
                return
            connection.setblocking(False)
            if self.connections() >= self._limits.connections:
                self._refuse(connection)
                continue
            task = self._loop.create_task(self._greet(connection))
            self._greeting.add(task)
            task.add_done_callback(self._greeting.discard)

    async def _greet(self, connection: socket.socket) -> None:
        secure = self._context is not None
        try:
            await self._loop.connect_accepted_socket(
                self._make,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=self._limits.head_seconds if secure else None,
                ssl_shutdown_timeout=_TLS_SHUTDOWN_SECONDS if secure else None,
            )
        except ConnectionAbortedError:  # raised by asyncio when a handshake times out
            self._refused("head_seconds")
        except OSError:  # the client disconnected, or does not use TLS
            connection.close()

    def _pause(self, error: OSError) -> None:
        self._refused("descriptors")
        self._loop.remove_reader(self._listening.fileno())
        self._later = self._loop.call_later(_PAUSE_SECONDS, self._resume)
        now = time.monotonic()
        if now - self._logged >= _LOG_SECONDS:
            self._logged = now
            _log.error(
                "no connection can be accepted: %s. Raise the limit of open files "
                "(ulimit -n) or lower --max-connections; this is logged once a minute",
                error.strerror,
            )

    def _refuse(self, connection: socket.socket) -> None:
        self._refused("connections")
        if self._context is not None or len(self._lingering) >= _MOST_LINGERING:
            connection.close()
            return
        with suppress(OSError):
            connection.send(
                refusal(
                    503,
                    f"The server has the {self._limits.connections:,} connections that "
                    "it takes at once",
                )
            )
            connection.shutdown(socket.SHUT_WR)
        self._lingering.append((time.monotonic(), connection))
