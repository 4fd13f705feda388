"""The Beam job: units of source in, shards of records out.

    units ─▶ prepare documents ─▶ count words ─▶ learn vocabulary
      └──────────────────────────────────────────────┐ (side input)
                                           build records

Elements are units of some megabytes, so Beam's cost per element does not matter, and
every step writes files that are functions of (corpus, config): the runner, the number
of workers and the order of arrival cannot show in them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsSingleton

from configs.errors import DataError
from configs.quiet import quiet_import
from configs.run import RunConfig
from pipeline.failures import marked_user_errors
from pipeline.manifest import counts_of
from pipeline.sources import Unit
from pipeline.states import read_states
from pipeline.tokenizers.artifact import METADATA_FILE, save_tokenizer
from pipeline.tokenizers.learning import learn_wordpiece


@dataclass(frozen=True)
class Job:
    """What every worker knows: the configuration and the folder of the results."""

    config: RunConfig
    folder: Path


class PrepareDocuments(beam.DoFn):
    """Reads, cleans, splits and writes a unit's documents; yields its word counts."""

    def __init__(self, job: Job):
        self.job = job

    def setup(self) -> None:
        quiet_import("tensorflow", "tensorflow_text")
        from pipeline.tokenizers.vocabulary import SPECIAL_PIECES
        from pipeline.tokenizers.wordpiece import WordPieceTokenizer

        # Words are cut before pieces are known; the special ones make it a tokenizer.
        config = self.job.config.tokenizer
        self.splitter = WordPieceTokenizer(
            SPECIAL_PIECES,
            lowercase=config.lowercase,
            strip_accents=config.strip_accents,
        )

    def process(self, unit: Unit) -> Iterator[Counter[str]]:
        from pipeline.prepare import prepare_unit

        with marked_user_errors():
            counts = prepare_unit(unit, self.job.config, self.job.folder, self.splitter)
        yield counts


class AddCounts(beam.CombineFn):
    """Adds word counts, a unit's at a time."""

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


class LearnVocabulary(beam.DoFn):
    """Learns and saves the vocabulary, once what was quarantined is found bearable."""

    def __init__(self, job: Job, units: int):
        self.job = job
        self.units = units

    def process(self, counts: Counter[str]) -> Iterator[str]:
        folder = self.job.folder / "tokenizer"
        with marked_user_errors():
            check_quarantine(self.job, self.units)
            if not (folder / METADATA_FILE).is_file():  # the last file to be written
                config = self.job.config.tokenizer
                save_tokenizer(folder, learn_wordpiece(counts, config), config)
        yield str(folder)


class BuildRecords(beam.DoFn):
    """Tokenizes, packs, masks and writes the records of a unit."""

    def __init__(self, job: Job):
        self.job = job
        self.tokenizer = None

    def setup(self) -> None:
        quiet_import("tensorflow", "tensorflow_text")

    def process(self, unit: Unit, vocabulary: str) -> Iterator[int]:
        from pipeline.build import build_unit
        from pipeline.tokenizers.artifact import load_tokenizer

        with marked_user_errors():
            if self.tokenizer is None:
                self.tokenizer = load_tokenizer(Path(vocabulary))
            build_unit(unit, self.job.config, self.job.folder, self.tokenizer)
        yield unit.index


def run_job(job: Job, units: list[Unit], workers: int) -> None:
    """Runs the whole job and returns when it is done.

    Raises:
        UserError: What a worker ran into, if the user can mend it.
    """
    mode = "in_memory" if workers == 1 else "multi_processing"
    options = PipelineOptions(
        [
            # Named, because Beam's default one would fetch a binary from the net.
            "--runner=FnApiRunner",
            f"--direct_num_workers={workers}",
            f"--direct_running_mode={mode}",
        ]
    )
    with beam.Pipeline(options=options) as pipeline:
        spread = pipeline | "Units" >> beam.Create(units) | "Spread" >> beam.Reshuffle()
        vocabulary = (
            spread
            | "Prepare documents" >> beam.ParDo(PrepareDocuments(job))
            | "Count words" >> beam.CombineGlobally(AddCounts())
            | "Learn vocabulary" >> beam.ParDo(LearnVocabulary(job, len(units)))
        )
        _ = spread | "Build records" >> beam.ParDo(
            BuildRecords(job), AsSingleton(vocabulary)
        )


def check_quarantine(job: Job, units: int) -> None:
    """Stops a job most of whose input could not be used.

    Raises:
        DataError: More than the configured share was quarantined, or nothing is left.
    """
    counts = counts_of(read_states(job.folder, "documents", units), [])
    quarantined = sum(counts["quarantined"].values())
    allowed = job.config.data.maximum_quarantine_fraction
    if quarantined > allowed * counts["read"]:
        reasons = ", ".join(f"{n} × {r}" for r, n in counts["quarantined"].items())
        raise DataError(
            f"data: {quarantined} of {counts['read']} documents could not be used "
            f"({reasons}); data.maximum_quarantine_fraction allows {allowed:g}. "
            f"See {job.folder / 'quarantine'}, mend the corpus or raise the limit"
        )
    if not counts["documents"].get("train"):
        raise DataError(
            f"data: no document is left for training: {counts['read']} read, "
            f"filtered {counts['filtered']}, quarantined {counts['quarantined']}, "
            f"validation {counts['documents'].get('validation', 0)}"
        )
