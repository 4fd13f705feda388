"""What is asked of a model to find the ranges that its numbers have."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from configs.errors import ArtifactError
from configs.objective import ImageClassificationConfig
from serving.phone.quantization import Calibration
from serving.records import documents, records
from serving.tasks.interface import Endpoint
from serving.trained import Trained

# With fewer, the largest number that is met says little of the largest there is.
FEWEST = 16

Row = Mapping[str, np.ndarray]


def calibration_rows(trained: Trained, run_folder: Path) -> list[Row]:
    """What a model is asked about, made of the first training records.

    The gate asks about validation records, so what is calibrated here is judged on
    other texts.

    Args:
        trained: The model; `export.tflite_calibration` says how many.
        run_folder: Holds the records.

    Returns:
        Of each text all inputs that a signature may have, or of each image its pixels.

    Raises:
        ArtifactError: There are fewer than 16 texts or images.
    """
    config = trained.config
    wanted = config.export.tflite_calibration
    if isinstance(config.objective, ImageClassificationConfig):
        found = list(islice(_images(config.objective, run_folder), wanted))
    else:
        found = list(islice(_texts(trained, run_folder), wanted))
    if len(found) < FEWEST:
        raise ArtifactError(
            f"{run_folder / 'data/records'}: the training split has {len(found)} to "
            f"calibrate int8 on; expected {FEWEST} at least, better "
            f"{max(wanted, FEWEST)}. Make records of more, or leave int8 out of "
            "export.tflite: dynamic_int8 needs none"
        )
    return found


def calibration_of(
    endpoints: Mapping[str, Endpoint], rows: Sequence[Row], max_length: int
) -> Calibration:
    """The questions for each signature.

    Args:
        endpoints: The signatures of a phone's file.
        rows: Of `calibration_rows`.
        max_length: Tokens of the longest text.
    """
    return {
        name: [
            # Every other one filled up: what forbids padding is a number, too, and one
            # that was never met would be cut down to those that were.
            _question(endpoint, row, max_length if number % 2 else None)
            for number, row in enumerate(rows)
        ]
        for name, endpoint in endpoints.items()
    }


def _texts(trained: Trained, run_folder: Path) -> Iterator[Row]:
    longest = trained.config.model.max_sequence_length
    mask = trained.tokenizer.special.mask
    for ids, segments in documents(run_folder, split="train"):
        token_ids = ids[:longest]
        yield {
            "token_ids": token_ids,
            "padding_mask": np.ones_like(token_ids),
            "segment_ids": segments[:longest],
            "masked_positions": np.flatnonzero(token_ids == mask),
        }


def _images(objective: ImageClassificationConfig, run_folder: Path) -> Iterator[Row]:
    size, channels = objective.image_size, objective.channels
    for record in records(run_folder, "train"):
        yield {"image": record["image"].reshape(size, size, channels)}


def _question(
    endpoint: Endpoint, row: Row, length: int | None
) -> dict[str, np.ndarray]:
    """The inputs of a signature, as its file takes them.

    Args:
        endpoint: The signature.
        row: All that may be asked for.
        length: What inputs of any length are filled up to, if to anything.
    """
    found: dict[str, Any] = {}
    for spec in endpoint.inputs:
        values = row[spec.name]
        size = length if spec.shape[1] is None else spec.shape[1]
        if size is not None and values.ndim == 1:
            values = np.pad(values[:size], (0, max(size - len(values), 0)))
        found[spec.name] = values[np.newaxis].astype(spec.dtype.as_numpy_dtype)
    return found
