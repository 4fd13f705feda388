"""The first step of the data job: reads and cleans the documents of a work unit.

The results of each step of the data job depend only on the step's input and the
configuration. A step writes its results to files and then writes a marker file, so that
a restarted job skips finished work.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.accounting.byte_accounting import UnreadFiles, shared_out
from transbeam.pipeline.cleaning.text_cleaning import (
    clean_text,
    filter_reason,
    quarantine_reason,
)
from transbeam.pipeline.documents.document import (
    Document,
    Filtered,
    Item,
    Rejected,
    SourceFile,
    rejected,
)
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.documents.document_selection import is_validation
from transbeam.pipeline.documents.step_markers import (
    DocumentPart,
    documents_path,
    is_done,
    mark_done,
    unit_name,
    unit_parts,
)
from transbeam.pipeline.sources.corpus_files import list_sources
from transbeam.pipeline.sources.files.reading_report import ReadingReport, reported
from transbeam.pipeline.sources.work_units import Unit, read_spans
from transbeam.pipeline.steps.deduplicate_documents import save_signatures

MEGABYTE = 1_000_000
# Omitted from quarantine entries if they are false or 0.
_RARE = ("unread", "doubtful")


@dataclass
class CleanedUnit:
    """The document parts and counts of a work unit; each document is counted once.

    Attributes:
        parts: The document parts that contain the cleaned documents.
        documents: The number of clean documents, by split.
        filtered: The number of documents left out by a rule, by reason.
        quarantined: The number of unusable documents, by reason.
        bytes: The numbers of source bytes that are `filtered`, `quarantined` and
            `unread`; all other source bytes belong to documents in the document parts.
        unread: The files that could not be read completely.
    """

    parts: list[dict[str, Any]] = field(default_factory=list)
    documents: Counter[str] = field(default_factory=Counter)
    filtered: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    bytes: dict[str, int] = field(default_factory=dict)
    unread: list[dict[str, Any]] = field(default_factory=list)


def prepare_unit(unit: Unit, config: RunConfig, folder: Path) -> list[DocumentPart]:
    """Reads and cleans a work unit's documents, and writes document parts."""
    name = unit_name(unit.index)
    if is_done(folder, "documents", name):
        return unit_parts(folder, unit.index)
    prepared = CleanedUnit()
    quarantine: list[Rejected] = []
    kept: list[Document] = []
    # A unit is one part, unless it is much larger when decompressed.
    largest = 2 * config.data.shard_megabytes * MEGABYTE
    size = 0
    sources = config.data.source, config.data.validation_source
    origin = list_sources(*sources)[unit.part]

    def close_part() -> None:
        if kept:
            number = len(prepared.parts)
            part = DocumentPart(
                unit.index, number, size, origin.weight, origin.held_out
            )
            batch = DocumentBatch.from_documents(kept)
            if near := config.data.deduplication.near:
                save_signatures(folder, part, [d.text for d in kept], near)
            batch.save(documents_path(folder, part))
            held_out = is_validation(batch.keys, part, config.data)
            prepared.documents["validation"] += int(held_out.sum())
            prepared.documents["train"] += int((~held_out).sum())
            prepared.parts.append(asdict(part))
            kept.clear()

    accounting = _UnitAccounting()
    report = ReadingReport()
    for span, item in reported(read_spans(unit, *sources), report):
        outcome = cleaned(item, config)
        accounting.enter(span.file, item, outcome, len(prepared.parts))
        if isinstance(outcome, Document):
            kept.append(outcome)
            size += outcome.size
            if size >= largest:
                close_part()
                size = 0
        elif isinstance(outcome, Rejected):
            quarantine.append(outcome)
        else:
            prepared.filtered[outcome.reason] += 1
    close_part()
    accounting.close(prepared, unit.size)
    prepared.quarantined.update(entry.reason for entry in quarantine)
    write_quarantine(folder, name, quarantine)
    mark_done(folder, "documents", name, {**vars(prepared), **report.as_json()})
    return unit_parts(folder, unit.index)


def cleaned(item: Item, config: RunConfig) -> Item:
    """Returns the cleaned document, or its quarantine or filter entry."""
    if not isinstance(item, Document) or item.image:
        return item  # the rules apply to text
    rules = config.data.cleaning
    if reason := quarantine_reason(item.text, rules):
        return rejected(item, reason)
    if item.messages:
        messages = [(role, clean_text(text, rules)) for role, text in item.messages]
        text = "\n".join(content for _, content in messages)
        item = item._replace(text=text, messages=tuple(messages))
    # Changes of a text would invalidate the offsets of its answers.
    text = item.text if item.answers else clean_text(item.text, rules)
    if reason := filter_reason(text, rules):
        return Filtered(reason, item.source, item.offset)
    return item if text == item.text else item.with_text(text)


class _UnitAccounting:
    """Attributes the source bytes of a unit to the outcomes of its documents."""

    def __init__(self) -> None:
        self._sizes: Counter[str | int] = Counter()  # by outcome or part number
        self._unread = UnreadFiles()

    def enter(self, file: SourceFile, item: Item, outcome: Item, part: int) -> None:
        """Adds an item.

        Args:
            file: The file of the item.
            item: The item as it was read.
            outcome: The cleaned document, or its `Filtered` or `Rejected` entry.
            part: The number of the document part being filled.
        """
        fate: str | int = part
        if isinstance(outcome, Filtered):
            fate = "filtered"
        elif isinstance(outcome, Rejected):
            fate = "quarantined"
        self._unread.enter(file, outcome)
        if not (isinstance(item, Rejected) and item.unread):
            self._sizes[fate] += item.size + 1  # empty documents count, too

    def close(self, prepared: CleanedUnit, size: int) -> None:
        """Sets the byte counts of the work unit and of its document parts."""
        prepared.unread = self._unread.rows()
        unread = min(sum(row["unread"] for row in prepared.unread), size)
        fates = ["filtered", "quarantined", *range(len(prepared.parts))]
        sizes = [self._sizes[fate] for fate in fates]
        # Units without a document contain only ignored bytes, such as blank lines.
        shares = shared_out(size - unread, sizes if any(sizes) else [1, *sizes[1:]])
        bytes_ = dict(zip(fates, shares, strict=True))
        for number, part in enumerate(prepared.parts):
            part["source_bytes"] = bytes_[number]
        prepared.bytes = {
            "filtered": bytes_["filtered"],
            "quarantined": bytes_["quarantined"],
            "unread": unread,
        }


def write_quarantine(folder: Path, name: str, entries: Iterable[Rejected]) -> None:
    """Writes quarantine entries as JSON Lines; writes no file without entries."""
    lines = [json.dumps(_row(entry)) + "\n" for entry in entries]
    if lines:
        (folder / "quarantine").mkdir(exist_ok=True)
        write_atomically(folder / f"quarantine/{name}.jsonl", "".join(lines))


def _row(entry: Rejected) -> dict[str, Any]:
    row = asdict(entry)
    del row["size"]
    return {key: value for key, value in row.items() if key not in _RARE or value}
