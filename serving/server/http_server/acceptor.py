"""Connections of clients: let in up to a limit, and without a flood of messages.

asyncio's own loop accepts without a limit. Out of descriptors, it writes its message as
often as the backlog is long, again each second.
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

_AT_ONCE = 64  # accepted before others get a turn
_PAUSE_SECONDS = 1.0  # after the system had no descriptor or no memory
_SAY_SECONDS = 60.0
_OUT_OF = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
# Connections that are told so and kept for a moment, or a reset would overtake it.
_TOLD_AT_ONCE = 64
_TOLD_SECONDS = 1.0
_GOODBYE_SECONDS = 1.0

_log = logging.getLogger("transbeam.serve")


class Acceptor:
    """Accepts connections at a listening socket, as an `asyncio.Server` would.

    Args:
        listening: Bound.
        make: Makes the protocol of a connection.
        count: How many connections there are.
        limits: How many there may be, and how long a handshake may take.
        refused: Is told the reason of each refusal.
        context: For TLS.
        backlog: Connections that wait to be accepted.
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
        self._told: deque[tuple[float, socket.socket]] = deque()
        self._said = -_SAY_SECONDS
        self._loop = asyncio.get_running_loop()
        self._later: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        listening.listen(backlog)
        self._resume()

    def connections(self) -> int:
        """Open ones, those whose TLS is still agreed upon included."""
        return self._count() + len(self._greeting)

    def close(self) -> None:
        """Accepts nobody anymore."""
        if self._later is not None:
            self._later.cancel()
        self._loop.remove_reader(self._listening.fileno())
        self._listening.close()
        for task in self._greeting:
            task.cancel()
        while self._told:
            self._told.popleft()[1].close()

    async def wait_closed(self) -> None:
        """Waits for those who were let in but not greeted yet."""
        await asyncio.gather(*self._greeting, return_exceptions=True)

    def look(self, now: float) -> None:
        """Closes what was refused a moment ago."""
        while self._told and now - self._told[0][0] > _TOLD_SECONDS:
            self._told.popleft()[1].close()

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
                ssl_shutdown_timeout=_GOODBYE_SECONDS if secure else None,
            )
        except ConnectionAbortedError:  # asyncio's word for a handshake without end
            self._refused("head_seconds")
        except OSError:  # it went away, or speaks no TLS
            connection.close()

    def _pause(self, error: OSError) -> None:
        self._refused("descriptors")
        self._loop.remove_reader(self._listening.fileno())
        self._later = self._loop.call_later(_PAUSE_SECONDS, self._resume)
        now = time.monotonic()
        if now - self._said >= _SAY_SECONDS:
            self._said = now
            _log.error(
                "no connection can be accepted: %s. Raise the limit of open files "
                "(ulimit -n) or lower --max-connections; this is said once a minute",
                error.strerror,
            )

    def _refuse(self, connection: socket.socket) -> None:
        self._refused("connections")
        if self._context is not None or len(self._told) >= _TOLD_AT_ONCE:
            connection.close()
            return
        most = self._limits.connections
        message = f"The server has the {most:,} connections that it takes at once"
        with suppress(OSError):
            connection.send(refusal(503, message))
            connection.shutdown(socket.SHUT_WR)
        self._told.append((time.monotonic(), connection))
