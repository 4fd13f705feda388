"""Context of an evaluation: model, records, documents."""

from dataclasses import dataclass
from pathlib import Path

import keras

from transbeam.configs.cli.console import Console
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.evaluation_set import HeldOut
from transbeam.pipeline.records.manifest import Manifest
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.evaluation.document_index import (
    DocumentIndex,
    make_document_index,
)


@dataclass(frozen=True)
class EvaluationContext:
    """Everything that an evaluation reads.

    Attributes:
        config: The configuration with which the records were made.
        manifest: The records.
        held_out: Their documents.
        tokenizer: The run's tokenizer.
        model: The model for packed records, with its weights; None if an export is
            evaluated.
        console: Shows progress.
        export: The evaluated export; None if the run's own model is evaluated.
    """

    config: RunConfig
    manifest: Manifest
    held_out: HeldOut
    tokenizer: Tokenizer
    model: keras.Model | None
    console: Console
    export: Path | None = None

    def places(self) -> DocumentIndex:
        """The positions of documents in the rows of all batches."""
        batch_size = self.config.training.batch_size
        return make_document_index(self.manifest, self.held_out, batch_size)
