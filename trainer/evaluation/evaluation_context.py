"""Context of an evaluation: model, records, documents."""

from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from transbeam.configs.cli.console import Console
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.evaluation_set import ValidationDocuments
from transbeam.pipeline.records.manifest import Manifest
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.input.batches import validation_order


@dataclass(frozen=True)
class DocumentIndex:
    """Positions of documents in the rows of all batches; all arrays int64 (P,).

    Attributes:
        row: The row, ascending, counted over all batches.
        ordinal: The document's number in the row, from 1 as in `document_ids`.
        document: The document's number in the split.
    """

    row: np.ndarray
    ordinal: np.ndarray
    document: np.ndarray

    def first_document(self) -> np.ndarray:
        """The only or first document of each row: int64 (rows,)."""
        return self.document[self.ordinal == 1]


def make_document_index(
    manifest: Manifest, held_out: ValidationDocuments, batch_size: int
) -> DocumentIndex:
    """Builds the index for the rows of `validation_batches`.

    Args:
        manifest: The records.
        held_out: Their documents.
        batch_size: The batch size of `validation_batches`.
    """
    rows_of: dict[str, dict[int, int]] = {}
    for row, (path, record) in enumerate(validation_order(manifest, batch_size)):
        rows_of.setdefault(path, {})[record] = row
    rows, ordinals, documents = [], [], []
    for path, placement in held_out.placements.items():
        records = placement.record
        rows.append(np.array([rows_of[path][record] for record in records.tolist()]))
        ordinals.append(np.arange(len(records)) - np.searchsorted(records, records) + 1)
        documents.append(placement.document)
    row, ordinal, document = map(np.concatenate, (rows, ordinals, documents))
    order = np.lexsort((ordinal, row))
    return DocumentIndex(row[order], ordinal[order], document[order])


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
    held_out: ValidationDocuments
    tokenizer: Tokenizer
    model: keras.Model | None
    console: Console
    export: Path | None = None

    def document_index(self) -> DocumentIndex:
        """The positions of documents in the rows of all batches."""
        batch_size = self.config.training.batch_size
        return make_document_index(self.manifest, self.held_out, batch_size)
