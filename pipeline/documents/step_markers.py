"""Document parts, and the marker files that record finished steps of a data job.

A step writes its marker last, so the files that the marker describes are complete. An
interrupted job resumes from its markers.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from transbeam.configs.base.atomic_files import write_json, writing

# The first step processes work units, the others parts.
Step = Literal["documents", "duplicates", "words", "records"]


@dataclass(frozen=True, order=True)
class DocumentPart:
    """Some megabytes of cleaned documents, which become one shard of each split.

    Attributes:
        unit: Index of the work unit that the documents are from.
        number: Index of the part in the work unit; most work units have only one part.
        size: Bytes of text.
        weight: The number of times that each training document of the part is repeated.
        held_out: True if the documents are from `data.validation_source`.
        source_bytes: The number of source bytes attributed to the part.
    """

    unit: int
    number: int
    size: int
    weight: float = 1.0
    held_out: bool = False
    source_bytes: int = 0

    @property
    def name(self) -> str:
        """The base name of the part's files.

        Example:
        >>> DocumentPart(3, 0, 4_000_000).name
        '00003-00'
        """
        return f"{self.unit:05d}-{self.number:02d}"


def open_job_folder(folder: Path, *names: str) -> None:
    """Makes the folders of a job; removes partial files that a killed job left.

    Raises:
        ArtifactError: The folder cannot be written.
    """
    with writing(folder):
        for name in names:
            (folder / name).mkdir(exist_ok=True)
        for leftover in folder.rglob(".*.tmp"):
            leftover.unlink(missing_ok=True)


def unit_name(index: int) -> str:
    """Returns the base name of a work unit's marker."""
    return f"{index:05d}"


def state_path(folder: Path, step: Step, name: str) -> Path:
    """Returns the path of a step's marker for a work unit or a document part."""
    return folder / f"state/{step}-{name}.json"


def is_done(folder: Path, step: Step, name: str) -> bool:
    """Returns whether a step has finished for a work unit or a document part."""
    return state_path(folder, step, name).is_file()


def mark_done(folder: Path, step: Step, name: str, result: Any) -> None:
    """Writes a step's marker with its result."""
    write_json(state_path(folder, step, name), result)


def read_state(folder: Path, step: Step, name: str) -> Any:
    """Reads the result of a finished step."""
    return json.loads(state_path(folder, step, name).read_text("utf-8"))


def read_states(folder: Path, step: Step) -> Iterator[Any]:
    """Yields the results of a step so far, in the order of work units and parts."""
    for path in sorted((folder / "state").glob(f"{step}-*.json")):
        yield json.loads(path.read_text("utf-8"))


def unit_parts(folder: Path, unit: int) -> list[DocumentPart]:
    """Returns the document parts into which a work unit was cleaned."""
    rows = read_state(folder, "documents", unit_name(unit))["parts"]
    return [DocumentPart(**row) for row in rows]


def all_parts(folder: Path) -> list[DocumentPart]:
    """Returns the document parts of all work units that are cleaned so far."""
    states = read_states(folder, "documents")
    return [DocumentPart(**row) for state in states for row in state["parts"]]


def documents_path(folder: Path, part: DocumentPart) -> Path:
    """Returns the path of the Arrow file with a document part's documents."""
    return folder / f"documents/{part.name}.arrow"
