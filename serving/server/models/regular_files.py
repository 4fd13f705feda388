"""Checks that the files of a version are regular files."""

import os
import stat
from pathlib import Path

from transbeam.serving.server.base.status import invalid

# Files that a SavedModel is loaded from; other files in the folder are not opened.
_FILES = ("saved_model.pb", "saved_model.pbtxt", "batching_params.pbtxt")
_FOLDERS = ("variables", "assets", "assets.extra")
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def check_regular_files(folder: Path) -> None:
    """Rejects a version that contains a FIFO or a device in place of a file.

    Opening a FIFO blocks until another process writes to it, and reading a device may
    never end.

    Args:
        folder: The version folder.

    Raises:
        StatusError: The folder contains a FIFO or a device, whose path is in the
            message.
    """
    paths = [folder / name for name in _FILES]
    for name in _FOLDERS:
        for above, _, files in os.walk(folder / name):
            paths += [Path(above, file) for file in files]
    for path in paths:
        try:
            kind = stat.S_IFMT(path.stat().st_mode)
        except OSError:  # no such file, or the loader reports it more precisely
            continue
        if kind != stat.S_IFREG:
            raise invalid(
                f"{path}: found {_KINDS.get(kind, 'something else')}; expected a file"
            )
