"""Addresses of a server: had before anything is loaded, or said to be taken."""

import socket
from dataclasses import dataclass

from transbeam.configs.base.errors import ConfigError

# Clients that wait until the server has begun to answer.
_WAITING = 1024


@dataclass(frozen=True)
class Addresses:
    """Addresses that the server listens at.

    Attributes:
        rest: A URL.
        grpc: `HOST:PORT`.
    """

    rest: str
    grpc: str


def listen_for_rest(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Args:
        host: The address.
        port: 0 for any that is free.

    Raises:
        ConfigError: The address cannot be had.
    """
    return _listening(host, port, "--rest-port")


def check_free_for_rpc(host: str, port: int) -> None:
    """Says at once if the port is taken: gRPC opens it itself, when it is there.

    Args:
        host: The address.
        port: 0 for any that is free.

    Raises:
        ConfigError: The address cannot be had.
    """
    _listening(host, port, "--port").close()


def _listening(host: str, port: int, flag: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends each answer at once (TCP_NODELAY). Without,
    # one in two packets would wait 40 ms for the client to confirm the first.
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
    """The error of an address that cannot be had.

    Args:
        host: The address.
        port: Of it.
        flag: With which another one is chosen.
        error: What the system says.
    """
    return ConfigError(
        f"cannot listen on {address_of(host, port)}: {error.strerror or error}. Give "
        f"another port with {flag}, or 0 for any that is free"
    )


def address_of(host: str, port: int) -> str:
    """An address as clients write it.

    Example:
    >>> address_of("::1", 8500)
    '[::1]:8500'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
