"""A Unix socket to listen on: a file that clients of the same machine connect to."""

import socket
import stat
from pathlib import Path

from transbeam.configs.base.errors import ConfigError

_LONGEST = 107  # bytes of a path that Linux takes
_FLAG = "--grpc-socket-path"


def check_socket_path(path: Path) -> None:
    """Makes sure that a server may listen at a path.

    The socket of a server that was killed is left behind, and gRPC replaces it; but it
    would also take the place of one that listens.

    Args:
        path: Of the socket; its folder must be there.

    Raises:
        ConfigError: Something else is there, a server listens, or the path is too long.
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
        # One whose queue is full is one that listens.
        asking.setblocking(False)
        try:
            asking.connect(str(path))
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True
