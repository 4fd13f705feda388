"""Limits on connections and request heads, and their command-line flags."""

import resource
from dataclasses import dataclass

from transbeam.configs.cli.argument_parser import ArgumentGroup, argument, at_least_one

_MOST_CONNECTIONS = 1000
_FEWEST_CONNECTIONS = 16
# File descriptors reserved for models, logs, TensorFlow and gRPC.
_RESERVED_DESCRIPTORS = 128


def default_connections(descriptors: int | None = None) -> int:
    """Returns the default maximum number of connections of each API, REST or gRPC.

    Args:
        descriptors: Maximum number of file descriptors of the process; the process's
            soft limit if None.

    Example:
    >>> [default_connections(soft) for soft in (64, 256, 1024, 1048576)]
    [16, 64, 448, 1000]
    """
    if descriptors is None:
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return max(
        _FEWEST_CONNECTIONS,
        min(_MOST_CONNECTIONS, (descriptors - _RESERVED_DESCRIPTORS) // 2),
    )


_GROUP = ArgumentGroup(
    "limits of connections", "Connections that exceed a limit are closed."
)


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Limits on the requests and the idle time of a connection.

    Attributes:
        line_bytes: Maximum size in bytes of a request's path, of a header, and of a
            chunk's extensions.
        head_bytes: Maximum total size in bytes of a request's path and headers, or of
            the metadata of a gRPC call.
        headers: Maximum number of headers of a request, trailers included.
        head_seconds: Time in which the headers must arrive, TLS handshake included.
        idle_seconds: Keep-alive time between two requests.
        unread_seconds: Time after which a client that reads nothing of a response is
            disconnected.
        age_seconds: Maximum age of a gRPC connection; its client then reconnects.
        calls: Maximum number of concurrent gRPC calls of all connections together.
        connections: Maximum number of concurrent connections of each API.
    """

    line_bytes: int = argument(
        "--max-line-bytes N",
        "maximum size of a path (else 414) or a header (else 431); 8,192 by default",
        default=8 * 2**10,
        group=_GROUP,
    )
    head_bytes: int = argument(
        "--max-header-bytes N",
        "maximum size of all headers of a request, or of its gRPC metadata; 65,536 by "
        "default",
        default=64 * 2**10,
        group=_GROUP,
    )
    headers: int = argument(
        "--max-headers N",
        "maximum number of headers of a request; 100 by default",
        default=100,
        group=_GROUP,
    )
    head_seconds: float = argument(
        "--header-timeout SECONDS",
        "time limit for receiving a request's headers; 30 by default",
        default=30.0,
        group=_GROUP,
        type=at_least_one,
    )
    idle_seconds: float = argument(
        "--idle-timeout SECONDS",
        "time after which an idle connection is closed; 75 by default",
        default=75.0,
        group=_GROUP,
        type=at_least_one,
    )
    unread_seconds: float = argument(
        "--write-timeout SECONDS",
        "time after which the connection of a client that reads nothing of its "
        "response is closed; 30 by default",
        default=30.0,
        group=_GROUP,
        type=at_least_one,
    )
    age_seconds: float = argument(
        "--max-connection-age SECONDS",
        "maximum age of a gRPC connection; its client then reconnects; 3,600 by "
        "default",
        default=3600.0,
        group=_GROUP,
        type=at_least_one,
    )
    calls: int = argument(
        "--max-calls N",
        "maximum number of concurrent gRPC calls on all connections; 1,000 by default",
        default=1000,
        group=_GROUP,
    )
    connections: int = argument(
        "--max-connections N",
        "maximum number of concurrent connections per port; by default half of the "
        f"limit of open files (ulimit -n) beyond {_RESERVED_DESCRIPTORS}, at most "
        f"{_MOST_CONNECTIONS:,}",
        default=default_connections,
        group=_GROUP,
    )
