"""Files of a version that can be read to their end."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from transbeam.serving.server.base.status import invalid

# What a SavedModel is read from; whatever else lies beside it nobody opens.
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
    """Refuses a version with a FIFO or a device in the place of a file.

    Who opens a FIFO waits for somebody to write into it, and a device may have no end.

    Args:
        folder: The version folder.

    Raises:
        Failure: There is one; the message names it.
    """
    for path in _read(folder):
        try:
            kind = stat.S_IFMT(path.stat().st_mode)
        except OSError:  # whoever reads it says it better
            continue
        if kind != stat.S_IFREG:
            raise invalid(
                f"{path}: found {_KINDS.get(kind, 'something else')}; expected a file"
            )


def _read(folder: Path) -> Iterator[Path]:
    for name in _FILES:
        if (folder / name).exists():
            yield folder / name
    for name in _FOLDERS:
        for above, _, files in os.walk(folder / name):
            yield from (Path(above, file) for file in files)
