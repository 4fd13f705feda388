"""Writes generated files without overwriting those that the user has edited."""

from collections.abc import Mapping
from pathlib import Path

from transbeam.configs.base.atomic_files import write_atomically, writing
from transbeam.configs.base.errors import ArtifactError


def write_files(files: Mapping[str, str], to: Path, *, overwrite: bool) -> list[str]:
    """Writes the files that are missing or differ.

    Args:
        files: Contents by relative path.
        to: The output folder; it is created if necessary.
        overwrite: Whether files with other contents are replaced.

    Returns:
        The paths that were written.

    Raises:
        ArtifactError: A file has other contents and must not be replaced, in which
            case none is written; or a file cannot be written.
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
        # A file that is not UTF-8 is not ours, and differs however it is decoded.
        return file.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return None
