"""Putting files into a folder where some may be the user's own by now."""

from collections.abc import Mapping
from pathlib import Path

from transbeam.configs.base.atomic_files import write_atomically, writing
from transbeam.configs.base.errors import ArtifactError


def write_files(files: Mapping[str, str], to: Path, *, overwrite: bool) -> list[str]:
    """Writes the files that are not there as they should be.

    Args:
        files: Texts by their paths in the folder.
        to: The folder; it is made if need be.
        overwrite: Whether files that say something else are replaced.

    Returns:
        The paths that were written.

    Raises:
        ArtifactError: A file says something else and is not to be replaced; then none
            is written. Or the disk refuses.
    """
    there = {path: _read(to / path) for path in files}
    wanted = [path for path, text in files.items() if there[path] != text]
    changed = [path for path in wanted if there[path] is not None]
    if changed and not overwrite:
        raise ArtifactError(
            f"{to}: {', '.join(changed)}: there already, and not as they would be "
            "written: edited, or made of another export. Give another folder with "
            "--to, or replace them with --overwrite; nothing was written"
        )
    for path in wanted:
        file = to / path
        with writing(file.parent):
            file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, files[path])
    return wanted


def _read(file: Path) -> str | None:
    try:
        # What is no UTF-8 is not ours, and differs from it however it is read.
        return file.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return None
