"""Sockets between the workers of a training, with one JSON object per line."""

import contextlib
import errno
import json
import socket
from collections.abc import Mapping
from typing import Any

from transbeam.configs.base.errors import ConfigError

_MOST_BYTES = 16_000_000  # per line
_SECONDS_TO_CONNECT = 5.0


def parse_address(text: str) -> tuple[str, int]:
    """Splits HOST:PORT.

    Raises:
        ValueError: The text is not HOST:PORT.

    Example:
    >>> parse_address("train-0.train:2222")
    ('train-0.train', 2222)
    >>> parse_address("[::1]:2222")
    ('::1', 2222)
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit()):
        raise ValueError(text)
    if not 0 < int(port) < 65536:
        raise ValueError(text)
    return host, int(port)


def listen(address: str) -> socket.socket:
    """Listens on the port of an address, on all interfaces, as TensorFlow and JAX do.

    Raises:
        ConfigError: The port is not available.
    """
    _, port = parse_address(address)
    try:
        return _listen(port)
    except OSError as error:
        why = error.strerror
        if error.errno == errno.EADDRINUSE:
            why = "another process has the port"
        raise ConfigError(
            f"{address}: this worker cannot listen there: {why}. End it, or give this "
            "worker another port, in the environment of all of them"
        ) from None


def _listen(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
            # Where IPv6 is disabled, sockets can be created but not bound.
    return socket.create_server(("", port))


def dial(address: str) -> socket.socket:
    """Connects to an address.

    Raises:
        OSError: No process listens at the address, or the host name cannot be resolved.
    """
    found = socket.create_connection(parse_address(address), _SECONDS_TO_CONNECT)
    if found.getsockname() == found.getpeername():
        # Linux may connect a socket to itself where nobody listens.
        found.close()
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    return found


class JsonConnection:
    """A socket that carries JSON objects, one per line.

    Args:
        connected: A socket to a peer, which need not be a worker.
        timeout: Seconds to wait for a line; None waits forever.

    Example:
    >>> here, there = (JsonConnection(end) for end in socket.socketpair())
    >>> here.send({"worker": 1})
    >>> there.receive()
    {'worker': 1}
    >>> here.close()
    >>> there.receive() is None
    True
    >>> there.close()
    """

    def __init__(self, connected: socket.socket, timeout: float | None = None):
        self._socket = connected
        self._lines = connected.makefile("rb")
        self.wait_for(timeout)

    def wait_for(self, timeout: float | None) -> None:
        """Sets the seconds to wait for a line; None waits forever."""
        self._socket.settimeout(timeout)

    def send(self, message: Mapping[str, Any]) -> None:
        """Writes an object; a lost connection is ignored, as `receive` reports it."""
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return

    def receive(self) -> dict[str, Any] | None:
        """Reads a JSON object; None at the end of the stream or for any other line."""
        try:
            line = self._lines.readline(_MOST_BYTES)
            message = json.loads(line)
        except (OSError, ValueError):
            return None
        return message if isinstance(message, dict) else None

    def close(self) -> None:
        """Ends the connection, also for a thread that is waiting for a line."""
        with contextlib.suppress(OSError):  # the connection has ended already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._lines.close()  # waits for such a thread
        self._socket.close()
