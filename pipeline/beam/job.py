"""The Beam job of `transbeam data`: from work units to shards of records.

    units ─▶ prepare ─▶ parts ─┬─▶ (find duplicates) ─▶ count words ─▶ learn vocabulary
                               └───────────────────────────────┐ (side input)
                                                         build records

Elements are document parts of some megabytes, so Beam's cost per element is negligible.
Every step writes files that depend only on the corpus and the configuration, not on the
runner, the number of workers or the order of elements.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsSingleton

from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.tokenizer import PretrainedConfig, WordPieceConfig
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.pipeline.accounting.document_accounting import check_prepared
from transbeam.pipeline.beam.runner import run_pipeline
from transbeam.pipeline.beam.worker_failures import marked_user_errors
from transbeam.pipeline.documents.step_markers import DocumentPart
from transbeam.pipeline.sources.files.remote_files import use_options
from transbeam.pipeline.sources.work_units import Unit
from transbeam.pipeline.steps.clean_documents import prepare_unit
from transbeam.pipeline.steps.deduplicate_documents import (
    bands,
    drop_duplicates,
    find_near_duplicate_pairs,
)
from transbeam.pipeline.steps.sample_sentences import needs_negatives, sample_sentences
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.training.train_tokenizer import (
    LearnedConfig,
    make_tokenizer,
)

# A `PCollection`; Beam's annotations of its operators are too loose to check.
Collection = Any


SLICES = 16
# Words beyond the two million most frequent ones have no effect on a vocabulary.
_WORDS_PER_SLICE = 2_000_000 // SLICES


@dataclass(frozen=True)
class Job:
    """The settings of a data job, shared by all workers.

    Attributes:
        config: The run's configuration.
        folder: The output folder.
        beam_options: The user's options for Beam.
    """

    config: RunConfig
    folder: Path
    beam_options: tuple[str, ...] = ()


class JobStep(beam.DoFn):
    """A step of a job.

    Args:
        job: The job's settings.
    """

    def __init__(self, job: Job):
        self.job = job


class Prepare(JobStep):
    """Reads and cleans a work unit; yields the document parts that were written."""

    def setup(self) -> None:
        use_options(self.job.beam_options)

    def process(self, unit: Unit) -> Iterator[DocumentPart]:
        with marked_user_errors():
            yield from prepare_unit(unit, self.job.config, self.job.folder)


class RunOnce(JobStep):
    """Runs a function once for the whole corpus; passes the single input element on.

    Args:
        job: The job's settings.
        function: The function, which reads and writes files in the job's folder.
    """

    def __init__(self, job: Job, function: Callable[[RunConfig, Path], None]):
        super().__init__(job)
        self.function = function

    def process(self, number: int) -> Iterator[int]:
        with marked_user_errors():
            self.function(self.job.config, self.job.folder)
        yield number


class FindEdges(JobStep):
    """Finds the near duplicates that share a bucket of one band of the signatures."""

    def process(self, band: int, _: int) -> Iterator[int]:
        with marked_user_errors():
            find_near_duplicate_pairs(band, self.job.config, self.job.folder)
        yield band


class CountWords(JobStep):
    """Counts words in a part's training documents; yields pairs of slice and counts."""

    def __init__(self, job: Job, tokenizer: LearnedConfig):
        super().__init__(job)
        self.tokenizer = tokenizer

    def setup(self) -> None:
        quiet_import("tensorflow", "tensorflow_text")
        from transbeam.pipeline.beam.tokenizer_cache import shared_splitter

        self.splitter = shared_splitter(self.tokenizer)

    def process(self, part: DocumentPart, _: int) -> Iterator[tuple[int, Counter[str]]]:
        from transbeam.pipeline.steps.count_words import count_part

        with marked_user_errors():
            words = count_part(part, self.job.config, self.job.folder, self.splitter)
        yield from sliced(words).items()


class LearnVocabulary(JobStep):
    """Trains and saves the tokenizer."""

    def process(self, counts: Counter[str]) -> Iterator[str]:
        folder, wanted = self.job.folder / "tokenizer", self.job.config.tokenizer
        objective = self.job.config.objective
        dialogue = objective if isinstance(objective, DialogueConfig) else None
        if isinstance(objective, ImageObjective):
            # Images have no words: the special pieces, which never stand in a record.
            wanted = WordPieceConfig(vocabulary_size=len(SPECIAL_PIECES))
        with marked_user_errors():
            make_tokenizer(folder, counts, wanted, dialogue)
        yield str(folder)


class BuildRecords(JobStep):
    """Tokenizes, packs, masks and writes the records of a document part."""

    tokenizer: Tokenizer | None = None

    def setup(self) -> None:
        quiet_import("tensorflow", "tensorflow_text")

    def process(self, part: DocumentPart, vocabulary: str) -> Iterator[str]:
        from transbeam.pipeline.beam.tokenizer_cache import shared_tokenizer
        from transbeam.pipeline.steps.build_records import build_part

        with marked_user_errors():
            if self.tokenizer is None:
                self.tokenizer = shared_tokenizer(Path(vocabulary))
            build_part(part, self.job.config, self.job.folder, self.tokenizer)
        yield part.name


def run_job(job: Job, units: list[Unit], options: PipelineOptions) -> None:
    """Runs the job and returns when it is done.

    Raises:
        WorkerFailure: A user error in a worker, possibly wrapped by Beam.
    """
    with run_pipeline(options) as pipeline:
        parts = (
            pipeline
            | "Units" >> beam.Create(units)
            | "Spread units" >> beam.Reshuffle()
            | "Prepare documents" >> beam.ParDo(Prepare(job))
            | "Spread parts" >> beam.Reshuffle()
        )
        checked = (
            parts
            | "Count parts" >> beam.combiners.Count.Globally()
            | "Check input" >> beam.ParDo(RunOnce(job, check_prepared))
        )
        if job.config.data.deduplication.near:
            # In each band, once the signatures of all parts exist.
            checked = (
                pipeline
                | "Bands" >> beam.Create(range(bands(job.config)))
                | "Spread bands" >> beam.Reshuffle()
                | "Find edges" >> beam.ParDo(FindEdges(job), AsSingleton(checked))
                | "Count bands" >> beam.combiners.Count.Globally()
            )
        unique = checked | "Drop duplicates" >> beam.ParDo(
            RunOnce(job, drop_duplicates)
        )
        if needs_negatives(job.config):
            unique = unique | "Sample sentences" >> beam.ParDo(
                RunOnce(job, sample_sentences)
            )
        vocabulary = _word_counts(
            parts, unique, job
        ) | "Learn vocabulary" >> beam.ParDo(LearnVocabulary(job))
        _ = parts | "Build records" >> beam.ParDo(
            BuildRecords(job), AsSingleton(vocabulary)
        )


def _word_counts(parts: Collection, unique: Collection, job: Job) -> Collection:
    """Counts the words of the corpus; returns no counts for a pretrained tokenizer."""
    tokenizer = job.config.tokenizer
    if isinstance(tokenizer, PretrainedConfig):
        return unique | "No words" >> beam.Map(lambda _: Counter())
    return (
        parts
        | "Count words" >> beam.ParDo(CountWords(job, tokenizer), AsSingleton(unique))
        | "Add slices up" >> beam.CombinePerKey(AddSlices())
        | "Slices" >> beam.Values()
        | "All words" >> beam.CombineGlobally(AddCounts())
    )


def sliced(words: Counter[str]) -> dict[int, Counter[str]]:
    """Splits word counts into slices by a hash of the word.

    Example:
    >>> slices = sliced(Counter({"the": 3, "of": 2}))
    >>> sum(slices.values(), Counter()) == Counter({"the": 3, "of": 2})
    True
    """
    slices: dict[int, Counter[str]] = {}
    for word, count in words.items():
        slices.setdefault(zlib.crc32(word.encode()) % SLICES, Counter())[word] = count
    return slices


class AddCounts(beam.CombineFn):
    """Sums word counts."""

    def create_accumulator(self) -> Counter[str]:
        return Counter()

    def add_input(
        self, accumulator: Counter[str], counts: Counter[str]
    ) -> Counter[str]:
        accumulator.update(counts)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Counter[str]]) -> Counter[str]:
        total: Counter[str] = Counter()
        for accumulator in accumulators:
            total.update(accumulator)
        return total

    def extract_output(self, accumulator: Counter[str]) -> Counter[str]:
        return accumulator


class AddSlices(AddCounts):
    """Sums the counts of one slice and drops the rarest words if there are too many.

    A slice contains the words whose hashes have the same remainder modulo the number of
    slices. The counts of a slice are fully summed before rare words are dropped, so the
    result does not depend on the order in which Beam combines the counts.
    """

    def extract_output(self, accumulator: Counter[str]) -> Counter[str]:
        if len(accumulator) <= _WORDS_PER_SLICE:
            return accumulator
        ranked = sorted(accumulator.items(), key=lambda item: (-item[1], item[0]))
        return Counter(dict(ranked[:_WORDS_PER_SLICE]))
