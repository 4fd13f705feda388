"""Listening sockets and addresses, checked before any model is loaded."""

import errno
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from transbeam.configs.base.errors import ConfigError

# Backlog: connections that wait until the server accepts them.
_WAITING = 1024
_LONGEST = 107  # bytes of the path of a Unix socket on Linux
_FLAG = "--grpc-socket-path"


@dataclass(frozen=True)
class Addresses:
    """Addresses that the server listens on.

    Attributes:
        rest: URL of the REST API.
        grpc: `HOST:PORT` of the gRPC API; empty if there is none.
    """

    rest: str
    grpc: str


def listen(host: str, port: int, flag: str = "--rest-port") -> socket.socket:
    """Opens a listening socket.

    Args:
        host: Address to bind to.
        port: Port; 0 for any free port.
        flag: Command-line flag that chooses another port.

    Raises:
        ConfigError: The address is invalid or in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol, asyncio sets TCP_NODELAY. Otherwise every second packet
    # would wait 40 ms for the client's acknowledgment of the first.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_WAITING)
    except OSError as error:
        listening.close()
        raise taken(host, port, flag, error) from None
    return listening


def taken(host: str, port: int, flag: str, error: OSError) -> ConfigError:
    """Creates the error for an address that cannot be bound.

    Args:
        host: Address.
        port: Port.
        flag: Command-line flag that chooses another port.
        error: Error of the operating system.
    """
    return ConfigError(
        f"cannot listen on {format_address(host, port)}: {error.strerror or error}. "
        f"Give another port with {flag}, or 0 for any that is free"
    )


def format_address(host: str, port: int) -> str:
    """Formats an address as `HOST:PORT`, with brackets around IPv6 addresses.

    Example:
    >>> format_address("::1", 8500)
    '[::1]:8500'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_socket_path(path: Path) -> None:
    """Checks that a server may listen at a path.

    gRPC replaces a socket that a killed server left behind, but would also replace the
    socket of a running server.

    Args:
        path: Path of the socket; its folder must exist.

    Raises:
        ConfigError: The path is too long, its folder is missing, a server is listening
            at the path, or the path is a file that is not a socket.
    """
    if len(str(path).encode()) > _LONGEST:
        raise ConfigError(
            f"{_FLAG} {path}: expected a path of at most {_LONGEST} bytes, all that a "
            "Unix socket takes"
        )
    if not path.parent.is_dir():
        raise ConfigError(f"{_FLAG} {path}: there is no folder {path.parent}")
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"{_FLAG} {path}: something else is there, and no socket")
    if _is_listened_to(path):
        raise ConfigError(
            f"{_FLAG} {path}: a server listens there. Stop it, or give another path"
        )


def _is_listened_to(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        # A full backlog refuses a non-blocking connection, and means that a server
        # listens.
        client.setblocking(False)
        return client.connect_ex(str(path)) in (0, errno.EAGAIN, errno.EINPROGRESS)
