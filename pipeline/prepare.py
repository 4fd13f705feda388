"""First step of the job: a unit of source becomes parts of clean documents.

Each step is a function of its input and the configuration alone. Its result is kept
in files, the marker last, so that a job that was killed takes up where it was.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from configs.files import write_atomically
from configs.run import RunConfig
from pipeline.cleaning import clean_text, filter_reason, quarantine_reason, rejected
from pipeline.corpus import parts_of as parts_of_source
from pipeline.deduplication.steps import save_signatures
from pipeline.document_batch import DocumentBatch
from pipeline.documents import Document, Filtered, Rejected
from pipeline.kept import is_held_out
from pipeline.sources import Unit, read_unit
from pipeline.states import (
    Part,
    documents_path,
    is_done,
    mark_done,
    parts_of,
    unit_name,
)

MEGABYTE = 1_000_000

Item = Document | Rejected | Filtered


@dataclass
class Prepared:
    """What became of a unit's input: every document read is in one of the counts."""

    parts: list[dict[str, Any]] = field(default_factory=list)
    documents: Counter[str] = field(default_factory=Counter)
    filtered: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)


def prepare_unit(unit: Unit, config: RunConfig, folder: Path) -> list[Part]:
    """Reads and cleans a unit's documents and writes them in parts."""
    name = unit_name(unit.index)
    if is_done(folder, "documents", name):
        return parts_of(folder, unit.index)
    prepared = Prepared()
    quarantine: list[Rejected] = []
    kept: list[Document] = []
    # A unit is a part, unless it unpacks to much more than its size on the disk.
    largest = 2 * config.data.shard_megabytes * MEGABYTE
    size = 0
    sources = config.data.source, config.data.validation_source
    origin = parts_of_source(*sources)[unit.part]

    def close_part() -> None:
        if kept:
            number = len(prepared.parts)
            part = Part(unit.index, number, size, origin.weight, origin.held_out)
            batch = DocumentBatch.of(kept)
            if near := config.data.deduplication.near:
                save_signatures(folder, part, [d.text for d in kept], near)
            batch.save(documents_path(folder, part))
            held_out = is_held_out(batch.keys, part, config.data)
            prepared.documents["validation"] += int(held_out.sum())
            prepared.documents["train"] += int((~held_out).sum())
            prepared.parts.append(asdict(part))
            kept.clear()

    for item in read_unit(unit, *sources):
        outcome = cleaned(item, config)
        if isinstance(outcome, Document):
            kept.append(outcome)
            size += _bytes(outcome)
            if size >= largest:
                close_part()
                size = 0
        elif isinstance(outcome, Rejected):
            quarantine.append(outcome)
        else:
            prepared.filtered[outcome.reason] += 1
    close_part()
    prepared.quarantined.update(entry.reason for entry in quarantine)
    write_quarantine(folder, name, quarantine)
    mark_done(folder, "documents", name, vars(prepared))
    return parts_of(folder, unit.index)


def cleaned(item: Item, config: RunConfig) -> Item:
    """The document to keep, its entry in quarantine, or why it is filtered."""
    if not isinstance(item, Document) or item.image:
        return item  # the rules are about text
    rules = config.data.cleaning
    if reason := quarantine_reason(item.text, rules):
        return rejected(item, reason)
    # What changed a text would move the places of the answers in it.
    text = item.text if item.answers else clean_text(item.text, rules)
    if reason := filter_reason(text, rules):
        return Filtered(reason, item.source, item.offset)
    return item if text == item.text else item.with_text(text)


def _bytes(document: Document) -> int:
    # Characters stand for bytes: good enough to say when a part is large.
    return (
        len(document.text)
        + len(document.second_text)
        + len(document.target_text)
        + len(document.image)
    )


def write_quarantine(folder: Path, name: str, entries: Iterable[Rejected]) -> None:
    """Writes what could not be used as JSON lines; nothing if there is nothing."""
    lines = [json.dumps(asdict(entry)) + "\n" for entry in entries]
    if lines:
        (folder / "quarantine").mkdir(exist_ok=True)
        write_atomically(folder / f"quarantine/{name}.jsonl", "".join(lines))
