"""Blocks of documents: what a model is asked about in one go.

How a unit is cut into blocks depends on its documents and the batch size alone. Each
block becomes one part of the output, each unit leaves a marker that says how many
blocks it has, what became of its input and what its readers reported.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transbeam.configs.base.atomic_files import write_json
from transbeam.configs.schema.sources import Source
from transbeam.pipeline.accounting.byte_accounting import UnreadFiles
from transbeam.pipeline.documents.document import Document, Filtered, Rejected
from transbeam.pipeline.documents.rejection import rejected
from transbeam.pipeline.documents.step_markers import unit_name
from transbeam.pipeline.sources.files.reading_report import ReadingReport, reported
from transbeam.pipeline.sources.work_units import Unit, read_spans
from transbeam.pipeline.steps.clean_documents import write_quarantine

BATCHES = 32
_CHARACTERS = 1_000_000


@dataclass(frozen=True)
class Block:
    """Some documents of a unit, in order.

    Attributes:
        unit: Index of the unit.
        number: Which block of it.
        documents: At least one.
    """

    unit: int
    number: int
    documents: tuple[Document, ...]

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def size(self) -> int:
        """Characters of text."""
        return sum(len(document.text) for document in self.documents)

    def texts(self, batch_size: int) -> Iterator[list[bytes]]:
        """The texts as UTF-8, `batch_size` at a time."""
        for start in range(0, len(self), batch_size):
            batch = self.documents[start : start + batch_size]
            yield [document.text.encode("utf-8") for document in batch]


@dataclass
class Ledger:
    """What became of a unit's input: every document read is in one of the counts."""

    blocks: int = 0
    scored: int = 0
    filtered: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)

    @property
    def read(self) -> int:
        return self.scored + self.filtered.total() + self.quarantined.total()


def read_blocks(
    unit: Unit, source: Source, batch_size: int, folder: Path
) -> Iterator[Block]:
    """The blocks of a unit that have no part yet; then leaves the unit's marker."""
    if _is_written(folder, unit):
        return
    ledger, unread, report = Ledger(), UnreadFiles(), ReadingReport()
    quarantine: list[Rejected] = []
    held: list[Document] = []

    def close() -> Iterator[Block]:
        block = Block(unit.index, ledger.blocks, tuple(held))
        ledger.blocks += 1
        ledger.scored += len(block)
        held.clear()
        if not part_path(folder, block).is_file():
            yield block

    characters = 0
    for span, found in reported(read_spans(unit, source), report):
        item = _checked(found)
        unread.enter(span.file, item)
        if isinstance(item, Filtered):
            ledger.filtered[item.reason] += 1
        elif isinstance(item, Rejected):
            quarantine.append(item)
        else:
            held.append(item)
            characters += len(item.text)
            if len(held) == BATCHES * batch_size or characters >= _CHARACTERS:
                yield from close()
                characters = 0
    if held:
        yield from close()
    ledger.quarantined.update(entry.reason for entry in quarantine)
    write_quarantine(folder, unit_name(unit.index), quarantine)
    marker = {**vars(ledger), "unread": unread.rows(), **report.as_json()}
    write_json(marker_path(folder, unit.index), marker)


def _checked(item: Document | Filtered | Rejected) -> Document | Filtered | Rejected:
    """A document as the model is to see it, if it can be written as UTF-8."""
    if not isinstance(item, Document):
        return item
    # A byte order mark and the end of the last line belong to the file.
    text = item.text.removeprefix("\ufeff").rstrip("\r\n")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return rejected(item, "contains a lone surrogate, which has no UTF-8 form")
    return item if text == item.text else item.with_text(text)


def marker_path(folder: Path, unit: int) -> Path:
    """Where a unit's marker lies."""
    return folder / f"state/{unit_name(unit)}.json"


def part_path(folder: Path, block: Block) -> Path:
    """Where a block's rows lie."""
    return _part_path(folder, block.unit, block.number)


def _part_path(folder: Path, unit: int, number: int) -> Path:
    return folder / f"parts/{unit_name(unit)}-{number:05d}"


def parts_of(folder: Path, unit: int) -> list[Path]:
    """The parts of a unit that has left its marker, in order."""
    blocks = _read(folder, unit)["blocks"]
    return [_part_path(folder, unit, number) for number in range(blocks)]


def _is_written(folder: Path, unit: Unit) -> bool:
    marker = marker_path(folder, unit.index)
    if not marker.is_file():
        return False
    return all(part.is_file() for part in parts_of(folder, unit.index))


def _read(folder: Path, unit: int) -> dict[str, Any]:
    return json.loads(marker_path(folder, unit).read_bytes())


def read_markers(folder: Path, units: int) -> list[dict[str, Any]]:
    """The markers that the units have left, in order."""
    return [_read(folder, index) for index in range(units)]


def total(markers: Iterable[Mapping[str, Any]]) -> Ledger:
    """Adds the ledgers of all units up."""
    sum_ = Ledger()
    for marker in markers:
        sum_.blocks += marker["blocks"]
        sum_.scored += marker["scored"]
        sum_.filtered.update(marker["filtered"])
        sum_.quarantined.update(marker["quarantined"])
    return sum_
