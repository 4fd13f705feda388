"""Documents that a model is evaluated on, and their positions in the records.

Records contain ids; the evaluation of generated text, or an error analysis, needs the
texts and answers of the corpus. The documents of the validation split are stored in the
data folder. The documents of a test set are read by this module, with the readers of
the data job and the tokenizer and objective of the training data, into a folder with
the layout of a data folder.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from transbeam.configs.base.atomic_files import writing
from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.cleaning import CleaningConfig
from transbeam.configs.schema.data import DataConfig, DeduplicationConfig
from transbeam.configs.schema.objectives.supervised import (
    CompletionConfig,
    Seq2SeqConfig,
    TextToTextConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import Source
from transbeam.pipeline.accounting.document_accounting import list_reasons
from transbeam.pipeline.accounting.reading_summary import check_reading, sum_reading
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.documents.document_batch import TEXTS, DocumentBatch
from transbeam.pipeline.documents.document_selection import in_validation
from transbeam.pipeline.documents.hash_range import OUTSIDE
from transbeam.pipeline.documents.step_markers import read_states
from transbeam.pipeline.objectives.kinds import contract
from transbeam.pipeline.records.features import DocumentPositions
from transbeam.pipeline.records.manifest import Manifest, Shard
from transbeam.pipeline.records.packing.bucketing import bucket_runs
from transbeam.pipeline.records.shard_writer import provenance_path
from transbeam.pipeline.sources.corpus_files import (
    errors_named,
    list_files,
    list_sources,
)
from transbeam.pipeline.sources.work_units import plan_units
from transbeam.pipeline.steps.build_records import build_part
from transbeam.pipeline.steps.clean_documents import prepare_unit
from transbeam.pipeline.steps.sample_sentences import needs_negatives, sample_sentences
from transbeam.pipeline.tokenizers.base.interface import Tokenizer

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class ValidationDocuments:
    """The documents from which the validation records were made.

    Attributes:
        parts: The document parts of the corpus with all their documents, memory-mapped.
        rows: For each part, the int64 row indices of the documents that occur in a
            record, without repetition, in the order of the corpus.
        placements: For each shard's path, the positions of documents in its records; a
            document's number is its index in `rows`, counted over all parts.
    """

    parts: tuple[DocumentBatch, ...]
    rows: tuple[np.ndarray, ...]
    placements: Mapping[str, DocumentPositions]

    def __len__(self) -> int:
        return sum(map(len, self.rows))

    def batches(self, *columns: str) -> Iterator[DocumentBatch]:
        """Yields the documents, one batch per document part, with the given columns.

        Other columns stay on disk, and only one document part at a time is in memory,
        as the images of all parts may not fit in memory.
        """
        for part, rows in zip(self.parts, self.rows, strict=True):
            yield part.only(columns).take(rows)

    def texts(self, column: str = "text") -> list[bytes]:
        """Returns a column of texts as UTF-8; empty texts if missing."""
        return [text for batch in self.batches(column) for text in batch.texts(column)]

    def values(self, column: str) -> list[Any]:
        """Returns any column as Python values."""
        return [
            value for batch in self.batches(column) for value in batch.values(column)
        ]

    def one(self, number: int) -> dict[str, Any]:
        """Returns the attributes of a document by its number, texts as UTF-8."""
        edges = np.cumsum([len(rows) for rows in self.rows])
        place = int(np.searchsorted(edges, number, side="right"))
        row = self.rows[place][number - int(edges[place])]  # counted from the end
        one = self.parts[place].take(np.array([row]))
        return {
            name: one.texts(name)[0] if name in TEXTS else one.values(name)[0]
            for name in Document._fields
        }


def read_validation_documents(
    manifest: Manifest, data: DataConfig
) -> ValidationDocuments:
    """Reads the documents of the validation split, or of the shard that replaces it.

    Args:
        manifest: The manifest of a data folder or of a test set.
        data: The `data` section of the configuration with which the records were made.

    Raises:
        ArtifactError: The split has no record.
    """
    parts: list[DocumentBatch] = []
    rows: list[np.ndarray] = []
    placements: dict[str, DocumentPositions] = {}
    before = 0
    for name, shards in _by_part(manifest.split("validation")).items():
        batch = DocumentBatch.load(manifest.folder / f"documents/{name}.arrow")
        held_out = np.arange(len(batch))
        if data.validation_source is None and shards[0].split == "validation":
            held_out = np.flatnonzero(
                in_validation(batch.keys, data.validation_fraction)
            )
        there = batch.only(("source", "offset")).take(held_out)
        origins = zip(there.values("source"), there.values("offset"), strict=True)
        row_of = {origin: row for row, origin in enumerate(origins)}
        found = {s.path: _stretches(manifest.folder, s, row_of) for s in shards}
        used = np.unique(np.concatenate([of.document for of in found.values()]))
        for path, of in found.items():
            number = np.searchsorted(used, of.document) + before
            placements[path] = replace(of, document=number)
        parts.append(batch)
        rows.append(held_out[used])
        before += len(used)
    return ValidationDocuments(tuple(parts), tuple(rows), placements)


def _by_part(shards: Sequence[Shard]) -> dict[str, list[Shard]]:
    """Groups shards by the name of the document part they were made from."""
    found: dict[str, list[Shard]] = {}
    for shard in shards:
        # validation-00003-00, followed by the length if there are several buckets
        _, unit, number, *_ = _source_name(shard).split("-")
        found.setdefault(f"{unit}-{number}", []).append(shard)
    return found


def _source_name(shard: Shard) -> str:
    return Path(shard.path).name.split(".")[0]


def _stretches(
    folder: Path, shard: Shard, row_of: Mapping[tuple[str, int], int]
) -> DocumentPositions:
    table = pq.read_table(provenance_path(folder, _source_name(shard)))
    columns = [table[name].to_pylist() for name in ("source", "offset")]
    rows = [row_of.get(origin, -1) for origin in zip(*columns, strict=True)]
    document = np.array(rows, np.int64)
    # The second segments of negative pairs may be of other parts' documents, and of
    # training documents if validation has a single one.
    own = document >= 0
    return DocumentPositions(
        table["record"].to_numpy().astype(np.int64)[own],
        document[own],
        table["token"].to_numpy()[own],
    )


@dataclass(frozen=True)
class EvaluationSet:
    """The records of a test set.

    Attributes:
        config: The run's configuration without the rules that drop documents.
        manifest: The manifest of the records, all of which are in the validation split.
        left_out: The number of documents without a record, by reason.
        reading: The result of `sum_reading`.
    """

    config: RunConfig
    manifest: Manifest
    left_out: Mapping[str, int]
    reading: Mapping[str, Any]


def make_evaluation_set(
    config: RunConfig, source: Source, tokenizer: Tokenizer, folder: Path
) -> EvaluationSet:
    """Makes the records of a test set.

    Texts are normalized as in the corpus. No cleaning rule drops a document, and
    documents that are too long are truncated; but documents that are empty or have an
    unknown label are left out.

    Args:
        config: The run's configuration.
        source: The source of the documents.
        tokenizer: The run's tokenizer.
        folder: The output folder; existing files in it are deleted.

    Raises:
        DataError: A file is missing or incomplete, or no record could be made.
    """
    config = without_drops(config, source)
    with writing(folder):
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("state", "documents"):
            (folder / name).mkdir(parents=True)
    with errors_named("evaluation.test"):
        # Read like a validation corpus that follows a training corpus.
        first = len(list_sources(source))
        files = [replace(f, part=f.part + first) for f in list_files(source)]
        unit_bytes = int(config.data.shard_megabytes * MEGABYTE)
        units = plan_units(files, source, unit_bytes, source)
        parts = [p for unit in units for p in prepare_unit(unit, config, folder)]
        reading = sum_reading(read_states(folder, "documents"))
        check_reading(config.data, reading)
        if needs_negatives(config):
            sample_sentences(config, folder)
        for part in parts:
            build_part(part, config, folder, tokenizer)
    states = list(read_states(folder, "records"))
    shards = tuple(Shard(**row) for state in states for row in state["shards"])
    left_out = _left_out(folder)
    if not any(shard.records for shard in shards):
        raise DataError(
            f"evaluation.test: no record was made of it: {list_reasons(left_out)}. "
            "Fix its files, or the keys of evaluation.test"
        )
    shutil.rmtree(folder / "state")
    runs = bucket_runs(config)
    return EvaluationSet(
        config,
        Manifest(
            folder=folder,
            features=contract(config),
            shards=shards,
            vocabulary={"size": tokenizer.vocabulary_size},
            counts={},
            buckets={run.data.sequence_length: contract(run) for run in runs}
            if len(runs) > 1
            else {},
            source_parts={file.name: file.part for file in files},
        ),
        left_out,
        reading,
    )


def without_drops(config: RunConfig, source: Source) -> RunConfig:
    """Returns the configuration with a test set in place of the corpus.

    Its texts are normalized as those of the corpus, and none is dropped.
    """
    cleaning = config.data.cleaning
    objective = config.objective
    if isinstance(objective, Seq2SeqConfig | TextToTextConfig):
        objective = replace(objective, too_long="truncate")
    elif isinstance(objective, CompletionConfig) and objective.too_long == "drop":
        objective = replace(objective, too_long="truncate_end")
    return replace(
        config,
        objective=objective,
        data=replace(
            config.data,
            source=source,
            validation_source=source,
            deduplication=DeduplicationConfig(exact=False),
            cleaning=CleaningConfig(
                normalization=cleaning.normalization,
                control_characters=cleaning.control_characters,
                personal_data=cleaning.personal_data,
                maximum_characters=cleaning.maximum_characters,
            ),
        ),
    )


def _left_out(folder: Path) -> Counter[str]:
    """Counts the documents without a record, by reason."""
    reasons: Counter[str] = Counter()
    for state in (*read_states(folder, "documents"), *read_states(folder, "records")):
        reasons.update(state["filtered"])
        reasons.update(state["quarantined"])
    del reasons[OUTSIDE]  # documents that are no part of the test set
    return +reasons
