"""Limits on connections and request heads, and their command-line flags."""

import resource
from dataclasses import dataclass

from transbeam.configs.cli.argument_parser import ArgumentGroup, argument, at_least_one

_MOST_CONNECTIONS = 1000
_FEWEST_CONNECTIONS = 16
# File descriptors reserved for models, logs, TensorFlow and gRPC.
_RESERVED_DESCRIPTORS = 128


def default_connections(descriptors: int | None = None) -> int:
    """Returns the default limit of connections for each of REST and gRPC.

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
    "how clients may ask", "Connections beyond these limits are ended."
)


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Limits on the requests and the idle time of a connection.

    Attributes:
        line_bytes: Maximum bytes of a request's path, of a header, and of the
            extensions of a chunk.
        head_bytes: Maximum bytes of the path and all headers, or of the metadata of a
            gRPC call.
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
        "of a path (414) or a header (431); 8,192 if left out",
        default=8 * 2**10,
        group=_GROUP,
    )
    head_bytes: int = argument(
        "--max-header-bytes N",
        "of all headers of a request, or of its metadata over gRPC; 65,536 if left out",
        default=64 * 2**10,
        group=_GROUP,
    )
    headers: int = argument(
        "--max-headers N", "of a request; 100 if left out", default=100, group=_GROUP
    )
    head_seconds: float = argument(
        "--header-timeout SECONDS",
        "until a request's headers are there; 30 if left out",
        default=30.0,
        group=_GROUP,
        type=at_least_one,
    )
    idle_seconds: float = argument(
        "--idle-timeout SECONDS",
        "that a connection is kept without a request; 75 if left out",
        default=75.0,
        group=_GROUP,
        type=at_least_one,
    )
    unread_seconds: float = argument(
        "--write-timeout SECONDS",
        "that a client may read nothing of its answer; then it is given up; 30 if left "
        "out",
        default=30.0,
        group=_GROUP,
        type=at_least_one,
    )
    age_seconds: float = argument(
        "--max-connection-age SECONDS",
        "of a connection over gRPC; then its client connects anew; 3,600 if left out",
        default=3600.0,
        group=_GROUP,
        type=at_least_one,
    )
    calls: int = argument(
        "--max-calls N",
        "over gRPC at once, from all connections; 1,000 if left out",
        default=1000,
        group=_GROUP,
    )
    connections: int = argument(
        "--max-connections N",
        "at once, at each door; if left out, by the limit of open files (ulimit -n): "
        f"half of what it is above {_RESERVED_DESCRIPTORS}, and {_MOST_CONNECTIONS:,} "
        "at most",
        default=default_connections,
        group=_GROUP,
    )
