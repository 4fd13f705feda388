"""Source files and byte ranges of them."""

import os
from dataclasses import dataclass
from pathlib import Path


def _as_text(name: str) -> str:
    r"""Escapes a file name that is not valid UTF-8, as is possible on Linux.

    Example:
    >>> _as_text("caf\udce9.txt")
    'caf\\xe9.txt'
    """
    return os.fsencode(name).decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class SourceFile:
    """A file of the corpus as it was when it was listed.

    Attributes:
        name: Its name within the corpus, the same on every machine.
        path: Its path on this machine.
        size: Its size in bytes.
        modified: The modification time in nanoseconds.
        part: Index of its source in the corpus; see `corpus_files.parts_of`.
        partner: The file whose lines are aligned with those of this one, if any.
    """

    name: str
    path: str
    size: int
    modified: int
    part: int = 0
    partner: "SourceFile | None" = None

    @classmethod
    def at(cls, path: Path, name: str) -> "SourceFile":
        status = path.stat()
        return cls(
            _as_text(name),
            str(path.absolute()),  # absolute, as a worker may run in another folder
            status.st_size,
            status.st_mtime_ns,
        )


@dataclass(frozen=True)
class Span:
    """The bytes `start` to `end` (excluded) of a file."""

    file: SourceFile
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start
