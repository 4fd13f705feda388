"""Listening sockets and addresses, checked before any model is loaded."""

import socket
from dataclasses import dataclass

from transbeam.configs.base.errors import ConfigError

# Backlog: connections that wait until the server accepts them.
_WAITING = 1024


@dataclass(frozen=True)
class Addresses:
    """Addresses that the server listens on.

    Attributes:
        rest: URL of the REST API.
        grpc: `HOST:PORT` of the gRPC API.
    """

    rest: str
    grpc: str


def listen_for_rest(host: str, port: int) -> socket.socket:
    """Opens the listening socket of the REST API.

    Args:
        host: Address to bind to.
        port: Port; 0 for any free port.

    Raises:
        ConfigError: The address is invalid or in use.
    """
    return _listening(host, port, "--rest-port")


def check_free_for_rpc(host: str, port: int) -> None:
    """Checks that the gRPC port is free; gRPC itself binds it later.

    Args:
        host: Address to bind to.
        port: Port; 0 for any free port.

    Raises:
        ConfigError: The address is invalid or in use.
    """
    _listening(host, port, "--port").close()


def _listening(host: str, port: int, flag: str) -> socket.socket:
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
