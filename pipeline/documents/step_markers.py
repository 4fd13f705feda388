"""Parts of a corpus, and the markers each step leaves behind when it is done with one.

A marker is written last, so what it speaks of is whole. A job that was stopped goes
on from its markers.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from transbeam.configs.base.atomic_files import write_json

# A step works on units of source or, after the first, on parts.
Step = Literal["documents", "duplicates", "words", "records"]


@dataclass(frozen=True, order=True)
class DocumentPart:
    """Some megabytes of clean documents: what becomes one shard of each split.

    Attributes:
        unit: Index of the unit of source it comes from.
        number: Which part of it; most units are one part.
        size: Bytes of text.
        weight: How often each of its training documents is used.
        held_out: Whether it is of `data.validation_source`.
        source_bytes: Its share of the bytes of source that were read.
    """

    unit: int
    number: int
    size: int
    weight: float = 1.0
    held_out: bool = False
    source_bytes: int = 0

    @property
    def name(self) -> str:
        """Names the part's files.

        Example:
        >>> DocumentPart(3, 0, 4_000_000).name
        '00003-00'
        """
        return f"{self.unit:05d}-{self.number:02d}"


def unit_name(index: int) -> str:
    """Names a unit's marker."""
    return f"{index:05d}"


def state_path(folder: Path, step: Step, name: str) -> Path:
    """Where the marker of a unit or a part lies."""
    return folder / f"state/{step}-{name}.json"


def is_done(folder: Path, step: Step, name: str) -> bool:
    """Whether a step has left its marker."""
    return state_path(folder, step, name).is_file()


def mark_done(folder: Path, step: Step, name: str, result: Any) -> None:
    """Leaves a step's marker with its result."""
    write_json(state_path(folder, step, name), result)


def read_state(folder: Path, step: Step, name: str) -> Any:
    """The result a step left; it must be there."""
    return json.loads(state_path(folder, step, name).read_text("utf-8"))


def read_states(folder: Path, step: Step) -> Iterator[Any]:
    """The results a step has left so far, in the order of units and parts."""
    for path in sorted((folder / "state").glob(f"{step}-*.json")):
        yield json.loads(path.read_text("utf-8"))


def parts_of(folder: Path, unit: int) -> list[DocumentPart]:
    """The parts of a unit that has been prepared."""
    rows = read_state(folder, "documents", unit_name(unit))["parts"]
    return [DocumentPart(**row) for row in rows]


def all_parts(folder: Path) -> list[DocumentPart]:
    """The parts of all units prepared so far."""
    states = read_states(folder, "documents")
    return [DocumentPart(**row) for state in states for row in state["parts"]]


def documents_path(folder: Path, part: DocumentPart) -> Path:
    """Where a part's documents lie."""
    return folder / f"documents/{part.name}.arrow"
