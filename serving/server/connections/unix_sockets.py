"""Checks the path of a Unix socket before a server listens on it."""

import socket
import stat
from pathlib import Path

from transbeam.configs.base.errors import ConfigError

_LONGEST = 107  # bytes of a socket path on Linux
_FLAG = "--grpc-socket-path"


def check_socket_path(path: Path) -> None:
    """Checks that a server may listen at a path.

    A killed server leaves its socket behind, and gRPC replaces it; but gRPC would also
    replace the socket of a running server.

    Args:
        path: Path of the socket; its folder must exist.

    Raises:
        ConfigError: Another kind of file exists, a server is listening, the folder is
            missing, or the path is too long.
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
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        # A non-blocking connection to a full backlog fails with BlockingIOError, and a
        # backlog means that a server listens.
        asking.setblocking(False)
        try:
            asking.connect(str(path))
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True
