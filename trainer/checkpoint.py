"""Checkpoints: the whole state of a training in one folder that appears at once.

A checkpoint holds the weights (with the random state of every dropout), the optimizer
and the position in the data. It is written under a temporary name and renamed when it
is complete, so one that was cut off is never read.
"""

import errno
import json
import math
import os
import shutil
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import keras

from configs.errors import ArtifactError
from configs.files import write_json, writing

FORMAT = 1
WEIGHTS = "model.weights.h5"
_WEIGHTS_AND_OPTIMIZER = "state.weights.h5"
_REST = "state.json"


@dataclass(frozen=True)
class Position:
    """Where a training is.

    Attributes:
        step: Optimizer updates done.
        records_read: Records consumed, counted over all epochs.
    """

    step: int
    records_read: int


def save_checkpoint(
    folder: Path, model: keras.Model, position: Position, keep: int
) -> Path:
    """Writes `folder/step-…` and removes the oldest beyond `keep`.

    Args:
        folder: Where checkpoints live.
        model: Compiled; its optimizer is saved with it.
        position: Where the training is.
        keep: How many checkpoints to leave.

    Raises:
        ArtifactError: The disk is full or the folder cannot be written.
    """
    final = folder / f"step-{position.step:08d}"
    temporary = folder / f".{final.name}.{os.getpid()}.tmp"
    try:
        with writing(folder):
            temporary.mkdir(parents=True)
            _require_space(folder, [*model.variables, *model.optimizer.variables])
            keras.saving.save_weights(model, temporary / _WEIGHTS_AND_OPTIMIZER)
            write_json(
                temporary / _REST,
                {
                    "format": FORMAT,
                    "position": asdict(position),
                    "shapes": _shapes(model),
                    "random": [state.numpy().tolist() for state in _random(model)],
                },
            )
            if final.exists():
                shutil.rmtree(final)
            os.rename(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for old in list_checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return final


def save_weights(model: keras.Model, path: Path) -> None:
    """The weights alone, without the optimizer if the model is compiled.

    Raises:
        ArtifactError: The disk is full or the folder cannot be written.
    """
    temporary = path.with_name(f".{os.getpid()}.tmp.{path.name}")
    try:
        with writing(path):
            _require_space(path.parent, model.variables)
            skipped = [model.optimizer] if model.compiled else None
            keras.saving.save_weights(model, temporary, objects_to_skip=skipped)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _require_space(folder: Path, variables: list[keras.Variable]) -> None:
    """Looks before it writes: HDF5 crashes the process when the disk fills up."""
    size = 4 * sum(math.prod(variable.shape) for variable in variables)  # float32
    if shutil.disk_usage(folder).free < 1.1 * size + 1_000_000:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def list_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints, oldest first."""
    return sorted(folder.glob("step-*"))


def restore_checkpoint(path: Path, model: keras.Model) -> Position:
    """Puts a checkpoint's state into a compiled model with a built optimizer.

    Raises:
        ArtifactError: A file is missing or damaged, or it belongs to another model or
            a newer version.
    """
    advice = (
        "Remove this folder to go on from the checkpoint before it, or the whole "
        "training folder to start afresh"
    )
    try:
        state = json.loads((path / _REST).read_text("utf-8"))
        if (found := state["format"]) != FORMAT:
            raise ArtifactError(
                f"{path}: format {found!r}, this version of Transbeam reads {FORMAT}"
            )
        if state["shapes"] != _shapes(model):
            raise ValueError("its weights have other shapes")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the shapes are known to be right
            keras.saving.load_weights(model, path / _WEIGHTS_AND_OPTIMIZER)
        for variable, value in zip(_random(model), state["random"], strict=True):
            variable.assign(value)
        return Position(**state["position"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(
            f"{path}: not a checkpoint of this run: {error}. {advice}"
        ) from error


def _shapes(model: keras.Model) -> list[list[int]]:
    variables = [*model.variables, *model.optimizer.variables]
    return [list(variable.shape) for variable in variables]


def _random(model: keras.Model) -> list[keras.Variable]:
    """The state of every dropout, which Keras leaves out of its weight files."""
    return [v for v in model.variables if v.path.endswith("seed_generator_state")]
