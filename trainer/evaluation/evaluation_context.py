"""What is evaluated, and by whom."""

from dataclasses import dataclass
from pathlib import Path

import keras

from transbeam.configs.cli.console import Console
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.evaluation_set import HeldOut
from transbeam.pipeline.records.manifest import Manifest
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.evaluation.document_index import DocumentIndex, places_of


@dataclass(frozen=True)
class EvaluationContext:
    """What is evaluated, and by whom.

    Attributes:
        config: What the records were made with.
        manifest: The records.
        held_out: Their documents.
        tokenizer: The run's.
        model: Reads the records; with its weights. None where an export is judged.
        console: Shows how far it is.
        export: That export; None where the run's own model is judged.
    """

    config: RunConfig
    manifest: Manifest
    held_out: HeldOut
    tokenizer: Tokenizer
    model: keras.Model | None
    console: Console
    export: Path | None = None

    def places(self) -> DocumentIndex:
        """Where documents stand in the rows of all batches."""
        batch_size = self.config.training.batch_size
        return places_of(self.manifest, self.held_out, batch_size)
