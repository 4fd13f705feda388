"""Validation records as model inputs with their targets."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import numpy as np

from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import (
    EmbeddingObjective,
    FillsObjective,
    ImageObjective,
    PooledObjective,
    SpanObjective,
    TextObjective,
    WordsObjective,
)
from transbeam.pipeline.records.document_unpacking import split_documents
from transbeam.serving.base.run_records import Record, records
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.keras_outputs import keras_outputs
from transbeam.serving.parity.base.word_answers import make_word_parity

_AT_ONCE = 16
_HIDDEN_EVERY = 7
Outputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class ValidationExample:
    """The inputs of a model, with their targets.

    Attributes:
        inputs: Inputs of the model by name: token rows (T,), or an image.
        right: The target: a value of shape (), or a value for each position, (N,).
        positions: int32 (N,), the evaluated positions, if outputs are per token.
    """

    inputs: dict[str, np.ndarray]
    right: np.ndarray
    positions: np.ndarray | None = None

    def answers(self, output: np.ndarray) -> np.ndarray:
        """Returns the values of a model output at the evaluated positions."""
        return output if self.positions is None else output[self.positions]


def labelled(trained: TrainedRun, run_folder: Path) -> Iterator[ValidationExample]:
    """Yields an example for each document or image, in the order of the records.

    Yields no examples for tasks without targets, and skips records without a target.
    """
    objective = trained.config.objective
    words = isinstance(objective, WordsObjective)
    target = make_word_parity(objective).target if words else "label"
    for record in records(run_folder, "validation"):
        if isinstance(
            objective, SentencePairsConfig | TextObjective | EmbeddingObjective
        ):
            return
        if isinstance(objective, FillsObjective):
            yield from _hidden(trained, record)
        elif isinstance(objective, WordsObjective):
            yield from _of_words(trained, record, target)
        elif isinstance(objective, SpanObjective):
            yield from _labelled(trained, record, "start_position", "end_position")
        elif isinstance(objective, PooledObjective):
            yield from _labelled(trained, record, target)
        else:
            assert_never(objective)


def _labelled(
    trained: TrainedRun, record: Record, *names: str
) -> Iterator[ValidationExample]:
    """Yields a record's example, or nothing if a feature of the target is missing."""
    if not all(name in record for name in names):
        return
    objective = trained.config.objective
    if isinstance(objective, ImageObjective):
        size = objective.image_size
        shape = (size, size, objective.channels)
        inputs = {"image": record["image"].reshape(shape)}
    else:
        inputs = _alone(trained, record)
    right = [record[name] for name in names]
    yield ValidationExample(
        inputs, np.concatenate(right) if len(right) > 1 else right[0]
    )


def _alone(trained: TrainedRun, record: Record) -> dict[str, np.ndarray]:
    """Returns the model's inputs for a record with one document."""
    real = record["document_ids"] > 0
    inputs = {**record, "padding_mask": real.astype(np.int32)}
    names = [name for name in inputs if name in trained.model.input]
    return {name: inputs[name][real] for name in names if name != "masked_positions"}


def _of_words(
    trained: TrainedRun, record: Record, target: str
) -> Iterator[ValidationExample]:
    if target not in record:
        return
    for inputs, of_it in _split(trained, record):
        positions = np.flatnonzero(record["label_weights"][of_it])
        if len(positions):
            yield ValidationExample(inputs, record[target][of_it][positions], positions)


def _hidden(trained: TrainedRun, record: Record) -> Iterator[ValidationExample]:
    """Yields documents with the record's masks, or else with every 7th token masked."""
    room, mask = trained.config.export.tflite_masks, trained.tokenizer.special.mask
    right = record["token_ids"].copy()
    selected = np.zeros(len(right), bool)
    if "masked_positions" in record:
        used = record["masked_weights"] > 0
        positions = record["masked_positions"][used]
        right[positions], selected[positions] = record["masked_ids"][used], True
    else:
        selected[_HIDDEN_EVERY // 2 :: _HIDDEN_EVERY] = True
        selected &= np.isin(right, trained.tokenizer.ordinary_ids)
    for inputs, of_it in _split(trained, record):
        positions = np.flatnonzero(selected[of_it])[:room].astype(np.int32)
        if len(positions):
            if "masked_positions" not in record:
                inputs["token_ids"] = inputs["token_ids"].copy()
                inputs["token_ids"][positions] = mask
            inputs["masked_positions"] = positions
            yield ValidationExample(inputs, right[of_it][positions])


def _split(
    trained: TrainedRun, record: Record
) -> Iterable[tuple[dict[str, np.ndarray], np.ndarray]]:
    """Yields the documents of a record, and the indices of their tokens."""
    for of_it in split_documents(record["document_ids"]):
        part = {
            name: record[name][of_it]
            for name in ("token_ids", "document_ids", "segment_ids")
            if name in record
        }
        yield _alone(trained, part), of_it


def run_keras(
    trained: TrainedRun, questions: Sequence[ValidationExample]
) -> list[Outputs]:
    """Runs the Keras model on all examples, in batches that are padded with zeros."""
    found: list[Outputs] = []
    for start in range(0, len(questions), _AT_ONCE):
        some = questions[start : start + _AT_ONCE]
        batch = {
            name: _stacked([one.inputs[name] for one in some])
            for name in some[0].inputs
        }
        arrays = keras_outputs(trained, batch)
        found += [
            {name: array[row] for name, array in arrays.items()}
            for row in range(len(some))
        ]
    return found


def _stacked(rows: Sequence[np.ndarray]) -> np.ndarray:
    longest = max(map(len, rows))
    ends = [[(0, longest - len(row)), *[(0, 0)] * (row.ndim - 1)] for row in rows]
    return np.stack([np.pad(row, end) for row, end in zip(rows, ends, strict=True)])
