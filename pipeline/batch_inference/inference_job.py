"""The Beam job of `transbeam score`: runs a SavedModel on every document.

    units ─▶ read blocks ─▶ RunInference ─▶ write parts

An element is a block of some hundred documents, so Beam's cost per element is
negligible. Each block is written to an output file of its own, so memory does not grow
with the corpus. The division of a work unit into blocks depends only on the unit's
documents and the batch size. For each work unit a marker file is written: the number of
its blocks, the counts of its documents and the reports of its readers.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, PredictionResult, RunInference
from apache_beam.options.pipeline_options import PipelineOptions

from transbeam.configs.base.atomic_files import write_atomically, write_json
from transbeam.configs.schema.sources import Source
from transbeam.pipeline.accounting.byte_accounting import UnreadFiles
from transbeam.pipeline.batch_inference.prediction_rows import RowFormat
from transbeam.pipeline.batch_inference.saved_models import (
    LoadedSignature,
    TextSignature,
)
from transbeam.pipeline.beam.runner import run_pipeline
from transbeam.pipeline.beam.worker_failures import marked_user_errors
from transbeam.pipeline.documents.document import Document, Filtered, Rejected, rejected
from transbeam.pipeline.documents.step_markers import unit_name
from transbeam.pipeline.sources.files.reading_report import ReadingReport, reported
from transbeam.pipeline.sources.files.remote_files import use_options
from transbeam.pipeline.sources.work_units import Unit, read_spans
from transbeam.pipeline.steps.clean_documents import write_quarantine

BATCHES = 32
_CHARACTERS = 1_000_000


@dataclass(frozen=True)
class Block:
    """Consecutive documents of a work unit.

    Attributes:
        unit: Index of the work unit.
        number: Index of the block in the work unit.
        documents: At least one.
    """

    unit: int
    number: int
    documents: tuple[Document, ...]

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def size(self) -> int:
        """The number of characters in the texts of the block."""
        return sum(len(document.text) for document in self.documents)

    def texts(self, batch_size: int) -> Iterator[list[bytes]]:
        """Yields batches of texts as UTF-8, `batch_size` texts each."""
        for start in range(0, len(self), batch_size):
            batch = self.documents[start : start + batch_size]
            yield [document.text.encode("utf-8") for document in batch]


@dataclass
class Ledger:
    """Counts of a work unit's documents: scored, filtered or quarantined."""

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
    """Yields blocks of a work unit that have no output file; then writes a marker."""
    if _is_written(folder, unit):
        return
    ledger, unread, report = Ledger(), UnreadFiles(), ReadingReport()
    quarantine: list[Rejected] = []
    documents: list[Document] = []

    def close() -> Iterator[Block]:
        block = Block(unit.index, ledger.blocks, tuple(documents))
        ledger.blocks += 1
        ledger.scored += len(block)
        documents.clear()
        if not part_path(folder, block.unit, block.number).is_file():
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
            documents.append(item)
            characters += len(item.text)
            if len(documents) == BATCHES * batch_size or characters >= _CHARACTERS:
                yield from close()
                characters = 0
    if documents:
        yield from close()
    ledger.quarantined.update(entry.reason for entry in quarantine)
    write_quarantine(folder, unit_name(unit.index), quarantine)
    marker = {**vars(ledger), "unread": unread.rows(), **report.as_json()}
    write_json(marker_path(folder, unit.index), marker)


def _checked(item: Document | Filtered | Rejected) -> Document | Filtered | Rejected:
    """Returns the document with its text as model input; rejects lone surrogates."""
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
    """Returns the path of a work unit's marker file."""
    return folder / f"state/{unit_name(unit)}.json"


def part_path(folder: Path, unit: int, number: int) -> Path:
    """Returns the path of the output file with the rows of a block."""
    return folder / f"parts/{unit_name(unit)}-{number:05d}"


def block_parts(folder: Path, unit: int) -> list[Path]:
    """Returns the output files of a finished work unit's blocks, in order."""
    blocks = _read(folder, unit)["blocks"]
    return [part_path(folder, unit, number) for number in range(blocks)]


def _is_written(folder: Path, unit: Unit) -> bool:
    marker = marker_path(folder, unit.index)
    if not marker.is_file():
        return False
    return all(part.is_file() for part in block_parts(folder, unit.index))


def _read(folder: Path, unit: int) -> dict[str, Any]:
    return json.loads(marker_path(folder, unit).read_bytes())


def read_markers(folder: Path, units: int) -> list[dict[str, Any]]:
    """Reads the marker files of all work units, in order."""
    return [_read(folder, index) for index in range(units)]


def total(markers: Iterable[Mapping[str, Any]]) -> Ledger:
    """Sums the document counts of all work units."""
    sum_ = Ledger()
    for marker in markers:
        sum_.blocks += marker["blocks"]
        sum_.scored += marker["scored"]
        sum_.filtered.update(marker["filtered"])
        sum_.quarantined.update(marker["quarantined"])
    return sum_


@dataclass(frozen=True)
class Scoring:
    """The settings of a batch inference job, shared by all workers.

    Attributes:
        source: The source of the documents.
        signature: The signature to run.
        batch_size: Documents per batch.
        rows: The format of the output rows.
        folder: The folder for the blocks' output files.
        beam_options: The user's options for Beam.
    """

    source: Source
    signature: TextSignature
    batch_size: int
    rows: RowFormat
    folder: Path
    beam_options: tuple[str, ...] = ()


class ReadBlocks(beam.DoFn):
    """Reads a work unit; yields its blocks that have no output file yet."""

    def __init__(self, scoring: Scoring):
        self.scoring = scoring

    def setup(self) -> None:
        use_options(self.scoring.beam_options)

    def process(self, unit: Unit) -> Iterator[Block]:
        scoring = self.scoring
        with marked_user_errors():
            yield from read_blocks(
                unit, scoring.source, scoring.batch_size, scoring.folder
            )


class SavedModelHandler(ModelHandler):
    """Runs a signature of a SavedModel on blocks of documents, for `RunInference`.

    Beam's own handler for TensorFlow takes tensors and needs `tensorflow_hub`. This
    handler takes a whole `Block` and returns one `PredictionResult`: the block and a
    list of the outputs of its batches.

    Args:
        signature: The signature to run.
        batch_size: Documents per batch.
    """

    def __init__(self, signature: TextSignature, batch_size: int):
        super().__init__()
        self.signature = signature
        self.batch_size = batch_size

    def load_model(self) -> LoadedSignature:
        """Loads the SavedModel; Beam calls this once per process."""
        with marked_user_errors():
            return LoadedSignature(self.signature)

    def run_inference(
        self,
        batch: Block,
        model: LoadedSignature,
        inference_args: dict[str, Any] | None = None,
    ) -> list[PredictionResult]:
        with marked_user_errors():
            answers = [model.ask(texts) for texts in batch.texts(self.batch_size)]
        return [PredictionResult(batch, answers, str(self.signature.folder))]

    def get_num_bytes(self, batch: Block) -> int:
        return batch.size

    def should_skip_batching(self) -> bool:
        return True


class WritePart(beam.DoFn):
    """Writes the rows of a block; yields the number of rows."""

    def __init__(self, scoring: Scoring):
        self.scoring = scoring

    def process(self, prediction: PredictionResult) -> Iterator[int]:
        block: Any = prediction.example
        answers: Any = prediction.inference
        with marked_user_errors():
            rows = self.scoring.rows.encode(block.documents, answers)
            path = part_path(self.scoring.folder, block.unit, block.number)
            write_atomically(path, rows)
        yield len(block)


def run_scoring(
    scoring: Scoring, units: Sequence[Unit], options: PipelineOptions
) -> None:
    """Runs the job and returns when it is done.

    Args:
        scoring: The job's settings.
        units: The work units.
        options: Options for Beam.
    """
    handler = SavedModelHandler(scoring.signature, scoring.batch_size)
    with run_pipeline(options) as pipeline:
        _ = (
            pipeline
            | "Units" >> beam.Create(units)
            | "Spread units" >> beam.Reshuffle()
            | "Read documents" >> beam.ParDo(ReadBlocks(scoring))
            | "Ask the model" >> RunInference(handler)
            | "Write rows" >> beam.ParDo(WritePart(scoring))
        )
