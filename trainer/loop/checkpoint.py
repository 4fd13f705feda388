"""Checkpoints: the whole state of a training in one folder, written atomically.

A checkpoint holds the weights with the random state of every dropout, the optimizer,
the moving averages, the masks of pruned weights, the counters of the update, and the
step, which determines the position in the data. A checkpoint is written under a
temporary name and renamed when it is complete, so an incomplete checkpoint is never
read. A background thread writes the checkpoint: the training waits only while the state
is copied to host memory.
"""

import json
import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from transbeam.configs.base.atomic_files import write_json, writing
from transbeam.configs.base.errors import ArtifactError
from transbeam.model.kernels.matmul_measurement import DTYPES
from transbeam.model.weights.training_checkpoints import (
    AVERAGE_OF,
    DESCRIPTION,
    TENSORS,
    list_checkpoints,
)
from transbeam.pipeline.records.manifest import sha256
from transbeam.trainer.base.weight_files import (
    copy_to_host,
    require_space,
    size_on_disk,
)
from transbeam.trainer.step.state import TrainState

FORMAT = 2
_ADVICE = (
    "Remove this folder to go on from the checkpoint before it, or the whole training "
    "folder to start afresh"
)
# Suffixes that Keras appends to the names of further layers of a kind in a process.
_COUNTER = re.compile(r"\b(dropout|seed_generator)_\d+\b")


@dataclass(frozen=True)
class Snapshot:
    """A copy of a training's state, which later updates do not change.

    Attributes:
        step: Number of steps done, including skipped updates; each step reads one
            batch.
        tensors: Arrays by `PART/NUMBER`, such as `model/00003`.
        described: Each tensor's path in the model, shape and dtype.
    """

    step: int
    tensors: dict[str, np.ndarray]
    described: dict[str, Any]


def take_snapshot(state: TrainState, step: int) -> Snapshot:
    """Copies a training's state to the host."""
    tensors = {name: copy_to_host(variable) for name, variable in _named(state).items()}
    return Snapshot(step, tensors, _described(state))


class Checkpoints:
    """Keeps the last few checkpoints of a run, and the best one.

    Args:
        folder: The folder of the checkpoints.
        keep: Number of latest checkpoints to keep.
        writes: True for the chief, the only worker that writes.
        rows: Records per batch of each stream, which with the step determine the
            position in the data.
        matmul_dtype: The dtype in which bfloat16 matrices are multiplied; None without
            mixed_bfloat16.
        best_metric: Name of the metric of the best checkpoint.
    """

    def __init__(
        self,
        folder: Path,
        keep: int,
        writes: bool = True,
        rows: Sequence[int] = (),
        matmul_dtype: str | None = None,
        best_metric: str = "loss",
    ):
        self.folder = folder
        self.keep = keep
        self.writes = writes
        self.rows = rows
        self.matmul_dtype = matmul_dtype
        self.best_metric = best_metric
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future | None = None
        for left in folder.glob(".step-*.tmp") if writes else ():
            shutil.rmtree(left, ignore_errors=True)

    def save(
        self,
        state: TrainState,
        step: int,
        validation: Mapping[str, float] | None = None,
    ) -> None:
        """Starts writing `step-…`; first waits for the previous write to finish.

        Args:
            state: The training's state.
            step: Updates done.
            validation: The metrics by name, if measured at this step; the best
                checkpoint is kept.

        Raises:
            ArtifactError: The disk is full or the folder cannot be written; this may
                report a failure of the previous write that `raise_failure` did not.
        """
        if not self.writes:
            return
        self.wait()
        if validation and not math.isfinite(validation["loss"]):
            validation = None  # no candidate for the best
        snapshot = take_snapshot(state, step)
        self._writing = self._thread.submit(self._write, snapshot, validation or {})

    def require_space(self, state: TrainState, left: int) -> None:
        """Checks that the disk has room for the checkpoints of a training.

        It is better refused than stopped by a full disk, with the steps since the last
        checkpoint lost.

        Args:
            state: The training's state.
            left: Number of checkpoints that the training is going to write.

        Raises:
            ArtifactError: The disk has too little space for the checkpoints that are
                there at once, besides those that are there now.
        """
        if not self.writes:
            return
        size = size_on_disk(_named(state).values())
        # Those that are kept, the best, and the one that is being written.
        most = self.keep + 2 - len(list_checkpoints(self.folder))
        number = max(min(most, left), 1)
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        try:
            require_space(self.folder, number * size)
        except OSError as error:
            raise ArtifactError(
                f"{self.folder}: the disk has too little space: {number} more of "
                f"{size / 1e6:,.1f} MB will be there at once. Free some, choose "
                "another folder, or keep fewer: training.keep_checkpoints"
            ) from error

    def raise_failure(self) -> None:
        """Raises what `save` raises if the last write has failed by now.

        Called after each step, so that no steps are done that cannot be kept.
        """
        if self._writing is not None and self._writing.done():
            self.wait()

    def wait(self) -> None:
        """Waits until the checkpoint is on the disk; raises what `save` raises."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()

    def close(self) -> None:
        """Waits for the last write, and ends the thread."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()

    def _write(self, snapshot: Snapshot, validation: Mapping[str, float]) -> None:
        write_checkpoint(
            self.folder, snapshot, validation, self.rows, self.matmul_dtype
        )
        best = best_checkpoint(self.folder, self.best_metric)
        for old in {*list_checkpoints(self.folder)[: -self.keep]} - {best}:
            shutil.rmtree(old)


def write_checkpoint(
    folder: Path,
    snapshot: Snapshot,
    validation: Mapping[str, float] | None = None,
    rows: Sequence[int] = (),
    matmul_dtype: str | None = None,
) -> Path:
    """Writes `folder/step-…` atomically.

    Raises:
        ArtifactError: The disk is full or the folder cannot be written.
    """
    from safetensors.numpy import save_file

    final = folder / f"step-{snapshot.step:08d}"
    temporary = folder / f".{final.name}.{os.getpid()}.tmp"
    try:
        with writing(folder):
            temporary.mkdir(parents=True)
            require_space(folder, sum(x.nbytes for x in snapshot.tensors.values()))
            path = temporary / TENSORS
            save_file(snapshot.tensors, path)
            with path.open("rb+") as file:
                os.fsync(file.fileno())
            rest = {
                "format": FORMAT,
                "step": snapshot.step,
                "validation": _finite(validation or {}),
                "rows": list(rows),
                "matmul_dtype": matmul_dtype,
                "sha256": sha256(path),
                "tensors": snapshot.described,
            }
            write_json(temporary / DESCRIPTION, rest)
            if final.exists():
                shutil.rmtree(final)
            os.rename(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return final


def best_checkpoint(folder: Path, metric: str = "loss") -> Path | None:
    """The complete checkpoint with the best validation, if there was one.

    Args:
        folder: The folder of the checkpoints.
        metric: The name of a metric. Losses and `mae` are best if they are low, all
            others if they are high.
    """
    validations = {path: _validation(path) for path in list_checkpoints(folder)}
    values = {path: of[metric] for path, of in validations.items() if metric in of}
    if not values:
        return None
    is_low = metric == "mae" or metric.startswith("loss")
    return (min if is_low else max)(values, key=values.__getitem__)


def restore_checkpoint(path: Path, state: TrainState) -> int:
    """Loads a checkpoint into a training's state.

    Returns:
        The step of the checkpoint.

    Raises:
        ArtifactError: A file is missing or damaged; the checkpoint is of another model
            or optimizer (the message names tensors that differ) or of another format
            version; or a weight is not finite. The training's state is unchanged after
            such an error.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        rest = json.loads((path / DESCRIPTION).read_text("utf-8"))
        if (found := rest["format"]) != FORMAT:
            raise ArtifactError(
                f"{path}: format {found!r}, this version of Transbeam reads {FORMAT}. "
                f"{_ADVICE}"
            )
        if other := _differences(rest["tensors"], _described(state)):
            raise ValueError("; ".join(other))
        if sha256(path / TENSORS) != rest["sha256"]:
            raise ValueError(f"{TENSORS} is not what was written")
        tensors = load_file(path / TENSORS)
        named = _named(state)
        for name in named:
            if not np.isfinite(tensors[name]).all():
                raise ValueError(f"{rest['tensors'][name]['path']} is not finite")
        for name, variable in named.items():
            variable.assign(tensors[name])
        return int(rest["step"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise ArtifactError(
            f"{path}: not a checkpoint of this run: {error}. {_ADVICE}"
        ) from error


def check_rows(path: Path, rows: Sequence[int]) -> None:
    """Checks that batches have the sizes with which a checkpoint was made.

    Args:
        path: The checkpoint.
        rows: Records per batch of each stream.

    Raises:
        ArtifactError: The sizes differ, so that records would be read twice or skipped.
    """
    there = json.loads((path / DESCRIPTION).read_text("utf-8")).get("rows")
    if there and list(rows) != there:
        raise ArtifactError(
            f"{path}: was made with batches of {there} records of each length, and the "
            f"workers of now have {list(rows)}: some records would be read twice, and "
            "some not at all. Go on with as many workers as it was made with"
        )


def read_matmul_dtype(path: Path) -> str | None:
    """Reads the dtype in which bfloat16 matrices were multiplied, from a checkpoint.

    Returns:
        The dtype; None if the checkpoint does not record it.

    Raises:
        ArtifactError: The checkpoint is damaged.
    """
    try:
        dtype = json.loads((path / DESCRIPTION).read_text("utf-8")).get("matmul_dtype")
        if dtype not in (None, *DTYPES):
            raise ValueError(f"matmul_dtype is {dtype!r}")
    except (OSError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"{path}: not a checkpoint of this run: {error}. {_ADVICE}"
        ) from error
    return dtype


def _named(state: TrainState) -> dict[str, keras.Variable]:
    """Variables by part of the state and index, as variable paths vary by process."""
    return {
        f"{part}/{number:05d}": variable
        for part, variables in state.variables.items()
        for number, variable in enumerate(variables)
    }


def _described(state: TrainState) -> dict[str, Any]:
    described = {
        name: {
            "path": _COUNTER.sub(r"\1", variable.path),
            "shape": list(variable.shape),
            "dtype": variable.dtype,
        }
        for name, variable in _named(state).items()
    }
    for number, weight in enumerate(
        state.model.trainable_variables[: len(state.averages)]
    ):
        described[f"average/{number:05d}"]["path"] = f"{AVERAGE_OF}{weight.path}"
    for number, weight in enumerate(state.pruned):
        described[f"mask/{number:05d}"]["path"] = f"the mask of {weight.path}"
    return described


def _differences(found: dict[str, Any], expected: dict[str, Any]) -> Sequence[str]:
    """Lists the first few differences between the tensors of two training states."""
    there, here = (
        {of["path"]: of for name, of in described.items() if name.startswith("model/")}
        for described in (found, expected)
    )
    lines = [f"{path} is not there" for path in here if path not in there]
    lines += [f"{path} is there and not here" for path in there if path not in here]
    if not lines:
        lines = [
            _difference(found.get(name), expected.get(name))
            for name in sorted(found.keys() | expected.keys())
        ]
        lines = [difference for difference in lines if difference]
    return [*lines[:5], f"and {len(lines) - 5} more"] if len(lines) > 5 else lines


def _difference(there: dict[str, Any] | None, here: dict[str, Any] | None) -> str:
    if there is None:
        return f"{here['path']} is not there" if here else ""
    if here is None:
        return f"{there['path']} is there and not here"
    kinds = [f"{of['dtype']} {of['shape']}" for of in (there, here)]
    if kinds[0] == kinds[1]:
        return ""
    return f"{here['path']} is {kinds[0]} there and {kinds[1]} here"


def _validation(path: Path) -> dict[str, float]:
    """Reads the metrics that were measured at a checkpoint, by name."""
    try:
        described = json.loads((path / DESCRIPTION).read_text("utf-8"))
        if "validation" not in described:  # by an older version
            loss = described["validation_loss"]
            return {} if loss is None else {"loss": loss}
        return dict(described["validation"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # damaged; `restore_checkpoint` reports it


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if math.isfinite(value)}
