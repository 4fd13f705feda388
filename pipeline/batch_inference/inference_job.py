"""The Beam job of `transbeam score`: runs a SavedModel on every document.

    units ─▶ read blocks ─▶ RunInference ─▶ write parts

An element is a block of some hundred documents, so Beam's cost per element does not
matter; each block becomes a part of the output by itself, so nothing is gathered and
memory does not grow with the corpus.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, PredictionResult, RunInference
from apache_beam.options.pipeline_options import PipelineOptions

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.configs.schema.sources import Source
from transbeam.pipeline.batch_inference.document_blocks import (
    Block,
    part_path,
    read_blocks,
)
from transbeam.pipeline.batch_inference.prediction_rows import RowFormat
from transbeam.pipeline.batch_inference.saved_models import (
    LoadedSignature,
    TextSignature,
)
from transbeam.pipeline.beam.runner import run_pipeline
from transbeam.pipeline.beam.worker_failures import marked_user_errors
from transbeam.pipeline.sources.files.remote_files import use_options
from transbeam.pipeline.sources.work_units import Unit


@dataclass(frozen=True)
class Scoring:
    """The settings of a batch inference job, shared by all workers.

    Attributes:
        source: The source of the documents.
        signature: The signature to run.
        batch_size: Documents per batch.
        rows: The format of the output rows.
        folder: The output folder of the parts.
        beam_options: The user's options for Beam.
    """

    source: Source
    signature: TextSignature
    batch_size: int
    rows: RowFormat
    folder: Path
    beam_options: tuple[str, ...] = ()


class ReadBlocks(beam.DoFn):
    """Reads a unit; yields its blocks that have no part yet."""

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

    Beam's own handler for TensorFlow takes tensors and needs `tensorflow_hub`. This one
    takes a `Block` as a whole and returns one `PredictionResult`: the block, and the
    list of its batches' outputs.

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
    """Writes the rows of a block; yields their number."""

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
