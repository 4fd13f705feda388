"""Atomic file writing: a killed process leaves the old or the new file, never a mix."""

import errno
import json
import os
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ArtifactError

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"

# What the operating system says, and what the user should do about it.
_PROBLEMS = {
    errno.ENOSPC: "no space is left on the disk. Free some, or choose another folder",
    errno.EDQUOT: "the disk quota is used up. Free some, or choose another folder",
    errno.EACCES: "permission denied. Change its rights, or choose another folder",
    errno.EPERM: "permission denied. Change its rights, or choose another folder",
    errno.EROFS: "the file system is read-only. Choose another folder",
    errno.ENOTDIR: "a part of the path is a file, not a folder. Choose another folder",
    errno.EEXIST: "a file is in the way. Choose another folder, or move the file",
    errno.EISDIR: "a folder is in the way. Choose another name, or move the folder",
    errno.ENAMETOOLONG: "the name is too long. Choose a shorter one",
}


def os_problem(error: OSError) -> str | None:
    """Describes a disk error that the user can fix; None for any other error.

    Example:
    >>> os_problem(OSError(errno.ENOSPC, "No space left on device"))
    'no space is left on the disk. Free some, or choose another folder'
    """
    return _PROBLEMS.get(error.errno) if error.errno is not None else None


class LFSPointerError(ArtifactError):
    """A file contains a Git LFS pointer because its content was not downloaded."""


def refuse_lfs_pointer(path: Path) -> None:
    r"""Raises an error if a file contains a Git LFS pointer instead of its content.

    Args:
        path: The file to check; a missing file is not an error.

    Raises:
        LFSPointerError: The file contains a Git LFS pointer.

    Example:
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.safetensors")
    ...     _ = path.write_text("version https://git-lfs.github.com/spec/v1\n...")
    ...     refuse_lfs_pointer(path)
    Traceback (most recent call last):
    LFSPointerError: .../model.safetensors: is a pointer of Git LFS, ...

    References:
        - [Git LFS specification](https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md)
    """
    try:
        with path.open("rb") as file:
            begins = file.read(len(_LFS_POINTER))
    except OSError:
        return
    if begins == _LFS_POINTER:
        raise LFSPointerError(
            f"{path}: is a pointer of Git LFS, not the file itself. Fetch it: `git lfs "
            "pull` in its folder"
        )


@contextmanager
def writing(path: Path | str) -> Generator[None, None, None]:
    """A context that converts disk errors to errors the user can act on.

    Args:
        path: The file or folder that is written, for the error message.

    Raises:
        ArtifactError: The disk is full, permission is denied, a file exists where a
            folder is needed, or the like.

    Example:
    >>> with writing("runs/demo"):
    ...     raise OSError(errno.EROFS, "Read-only file system")
    Traceback (most recent call last):
    ArtifactError: runs/demo: cannot be written: the file system ...
    """
    try:
        yield
    except OSError as error:
        problem = os_problem(error)
        if problem is None:
            raise
        raise ArtifactError(f"{path}: cannot be written: {problem}.") from error


def write_atomically(path: Path | str, content: str | bytes) -> None:
    """Writes a file atomically: at any time it has its old or its complete new content.

    Args:
        path: The file; its folder must exist.
        content: Text is encoded as UTF-8; its line endings are not converted.

    Raises:
        ArtifactError: The file cannot be written.
    """
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    # In the same folder, because a rename is atomic within one file system only. Not
    # by `tempfile`, whose files only the owner may read: a model server runs as another
    # user.
    # The name is unique, as other machines may write into this folder too.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with writing(path):
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Syncs the folder, so that the rename survives a power cut, where supported."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_json(path: Path | str, value: Any) -> None:
    """Writes a value as JSON atomically; a NaN or infinity raises `ValueError`.

    Example:
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(Path(folder, "counts.json"), {"records": 3})
    ...     print(Path(folder, "counts.json").read_text(), end="")
    {
      "records": 3
    }
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, text + "\n")
