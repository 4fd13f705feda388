"""Limits on connections and request heads, and their command-line flags."""

import argparse
import resource
from dataclasses import dataclass, field
from typing import Any

from transbeam.configs.cli.arguments import at_least_one

_MOST_CONNECTIONS = 1000
_FEWEST_CONNECTIONS = 16
# File descriptors reserved for models, logs, TensorFlow and gRPC.
_RESERVED_DESCRIPTORS = 128


def default_connections(descriptors: int | None = None) -> int:
    """Returns the default limit of connections for each of REST and gRPC.

    Args:
        descriptors: File descriptors of the process; its soft limit if None.

    Example:
    >>> [default_connections(soft) for soft in (64, 256, 1024, 1048576)]
    [16, 64, 448, 1000]
    """
    if descriptors is None:
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    share = (descriptors - _RESERVED_DESCRIPTORS) // 2
    return max(_FEWEST_CONNECTIONS, min(_MOST_CONNECTIONS, share))


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Limits on the requests and the idle time of a connection.

    Attributes:
        line_bytes: Bytes of a request's path, of a header, and of the extensions of a
            chunk.
        head_bytes: Bytes of the path and all headers, or of the metadata of gRPC.
        headers: Number of headers of a request, trailers included.
        head_seconds: Time in which the headers must arrive, TLS handshake included.
        idle_seconds: Keep-alive time between two requests.
        unread_seconds: Time after which a client that reads nothing of a response is
            disconnected.
        age_seconds: Maximum age of a gRPC connection; its client then reconnects.
        connections: Concurrent connections of each API.
        calls: Concurrent gRPC calls of all connections together.
    """

    line_bytes: int = 8 * 2**10
    head_bytes: int = 64 * 2**10
    headers: int = 100
    head_seconds: float = 30.0
    idle_seconds: float = 75.0
    unread_seconds: float = 30.0
    age_seconds: float = 3600.0
    connections: int = field(default_factory=default_connections)
    calls: int = 1000


_FLAGS: dict[str, tuple[str, str]] = {
    "line_bytes": ("--max-line-bytes", "of a path (414) or a header (431)"),
    "head_bytes": (
        "--max-header-bytes",
        "of all headers of a request, or of its metadata over gRPC",
    ),
    "headers": ("--max-headers", "of a request"),
    "head_seconds": ("--header-timeout", "until a request's headers are there"),
    "idle_seconds": ("--idle-timeout", "that a connection is kept without a request"),
    "unread_seconds": (
        "--write-timeout",
        "that a client may read nothing of its answer; then it is given up",
    ),
    "age_seconds": (
        "--max-connection-age",
        "of a connection over gRPC; then its client connects anew",
    ),
    "calls": ("--max-calls", "over gRPC at once, from all connections"),
}


def add_connection_arguments(group: Any) -> None:
    """Adds a flag for each connection limit to an argument group."""
    defaults = ConnectionLimits()
    for name, (flag, meaning) in _FLAGS.items():
        default = getattr(defaults, name)
        group.add_argument(
            flag,
            dest=name,
            metavar="SECONDS" if name.endswith("seconds") else "N",
            type=at_least_one,
            default=int(default),
            help=f"{meaning}; {default:,.0f} if left out",
        )
    group.add_argument(
        "--max-connections",
        dest="connections",
        metavar="N",
        type=at_least_one,
        help="at once, at each door; if left out, by the limit of open files "
        f"(ulimit -n): half of what it is above {_RESERVED_DESCRIPTORS}, and "
        f"{_MOST_CONNECTIONS:,} at most",
    )


def read_connection_limits(arguments: argparse.Namespace) -> ConnectionLimits:
    """Reads the limits from the arguments that `add_connection_arguments` added."""
    given: dict[str, Any] = {name: getattr(arguments, name) for name in _FLAGS}
    if arguments.connections is not None:
        given["connections"] = arguments.connections
    return ConnectionLimits(**given)
