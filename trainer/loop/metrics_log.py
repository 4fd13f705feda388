"""Log of a training's metrics: `metrics.jsonl` and TensorBoard."""

import errno
import json
import math
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from transbeam.configs.base.atomic_files import write_atomically, writing
from transbeam.configs.cli.progress import Bar
from transbeam.trainer.evaluation.evaluation_loop import (
    EvaluationMetrics,
    NotFiniteError,
    means,
)
from transbeam.trainer.loop.metrics_file import (
    METRICS,
    read_metrics,
    time_and_tokens,
)
from transbeam.trainer.step.state import TrainState


class TrainingLog:
    """Shows a training's metrics, and writes `metrics.jsonl` and TensorBoard files.

    Steps are added to the log without waiting for the device to finish them. The
    results are fetched for several steps at a time, while the device continues to
    compute. A line contains the means over all targets since the previous line, without
    skipped steps.

    Args:
        folder: Folder of the files.
        progress: The progress bar to advance.
        state: Holds the learning rate and the count of skipped steps.
        step: Updates done before.
        every: Steps per line.
        max_skipped: Largest number of consecutive skipped steps.
        writes: True for the chief, the only worker that writes.
        step_seconds: Seconds of a step at the devices' peak throughput, for `mfu`;
            0 leaves `mfu` out.

    Attributes:
        sparsity: The share of zeros in the pruned weights; None without pruning.
    """

    def __init__(
        self,
        folder: Path,
        progress: Bar,
        state: TrainState,
        *,
        step: int,
        every: int,
        max_skipped: int,
        writes: bool = True,
        step_seconds: float = 0.0,
    ):
        self.folder = folder
        self.progress = progress
        self.state = state
        self.step = step
        self.every = every
        self.max_skipped = max_skipped
        self.step_seconds = step_seconds
        self._tensorboard = None
        if writes:
            with self._writing():
                self._tensorboard = TensorBoard(folder / TENSORBOARD)
        before = time_and_tokens(read_metrics(folder))
        self._tokens = before["tokens"]  # real tokens of the logged steps
        self._start = time.perf_counter() - before["seconds"]
        self.sparsity: float | None = None
        self._waiting: list[Any] = []
        self._input_seconds = 0.0
        self._began = time.perf_counter()

    def add(self, numbers: Mapping[str, Any], input_seconds: float) -> None:
        """Adds a step.

        Args:
            numbers: The results of the update; see `build_step`.
            input_seconds: Seconds that the step waited for its batch.

        Raises:
            NotFiniteError: Too many steps in a row were skipped.
        """
        self.step += 1
        self._waiting.append(dict(numbers))
        self._input_seconds += input_seconds
        self.progress.advance(1)
        is_line = self.step % self.every == 0
        # Not checked at each step, because reading the count waits for the device.
        is_check = self.step % self.max_skipped == 0
        if is_line or (is_check and self._skipped_in_a_row() >= self.max_skipped):
            self.flush()

    def flush(self) -> None:
        """Writes a line on the steps since the last line."""
        if not self._waiting:
            return
        # Copied from the device to Python numbers.
        steps = keras.tree.map_structure(_on_host, self._waiting)
        seconds = max(time.perf_counter() - self._began, 1e-9)
        used = [step for step in steps if not step["skipped"]]
        line: dict[str, Any] = {}
        if used:
            total = keras.tree.map_structure(
                lambda *x: sum(x), *(step["sums"] for step in used)
            )
            line |= means(total).as_json()
            line["gradient_norm"] = float(np.mean([s["gradient_norm"] for s in used]))
            norms = np.mean([s["gradient_norms"] for s in used], axis=0).tolist()
            line["gradient_norms"] = dict(zip(self.state.parts, norms, strict=True))
        line["learning_rate"] = self.state.last_learning_rate()
        tokens = sum(step["tokens"] for step in steps)
        self._tokens += tokens
        line["tokens_per_second"] = round(tokens / seconds)
        line |= self._utilization(len(steps) / seconds)
        line["input_wait"] = round(self._input_seconds / seconds, 4)
        if skipped := len(steps) - len(used):
            line["skipped"] = skipped
        if self.sparsity is not None:
            line["sparsity"] = round(self.sparsity, 6)
        self.write("train", **line)
        self.progress.describe(_progress_text(line))
        self.restart_clock()
        self._waiting.clear()
        in_a_row = self._skipped_in_a_row()
        if in_a_row >= self.max_skipped:
            raise NotFiniteError(
                f"step {self.step:,}: the loss or its gradient was not finite for "
                f"{in_a_row} steps in a row "
                f"(training.max_skipped_steps={self.max_skipped}); the weights are "
                "those from before. Try a lower training.schedule.peak, more "
                "warmup_steps, or another training.precision; or look for records "
                "that are not like the others"
            )

    def _utilization(self, steps_per_second: float) -> dict[str, float]:
        """Computes `mfu`, unless it exceeds 1, which shows the peak was underestimated.

        Other load on the machine slows the measurement of the peak down. After the
        first value above 1, `mfu` is left out for the rest of the training.
        """
        used = steps_per_second * self.step_seconds
        if used > 1:
            self.step_seconds = 0.0
        return {"mfu": round(used, 4)} if 0 < used <= 1 else {}

    def restart_clock(self) -> None:
        """Excludes the time since the last line from the logged throughput."""
        self._began, self._input_seconds = time.perf_counter(), 0.0

    def validated(self, found: EvaluationMetrics) -> None:
        """Writes a line with the finite metrics of a validation."""
        numbers = {f"val_{name}": value for name, value in found.as_json().items()}
        finite = {name: x for name, x in numbers.items() if math.isfinite(x)}
        self.write("validation", **finite)

    def analyzed(self, numbers: Mapping[str, float]) -> None:
        """Writes the numbers of an analysis for TensorBoard alone.

        There are several per layer, and the analysis has a log of its own.
        """
        if self._tensorboard is not None:
            with self._writing():
                self._tensorboard.write("analysis", self.step, numbers)

    def write(self, part: str, **numbers: float | Mapping[str, float]) -> None:
        """Appends a line; a crash can at worst truncate the last one.

        Args:
            part: The name of TensorBoard's folder.
            numbers: Numbers by name, and mappings of the numbers of parts of the model.

        Raises:
            ArtifactError: The files cannot be written.
        """
        if self._tensorboard is None:
            return
        so_far = {
            "step": self.step,
            "seconds": round(time.perf_counter() - self._start, 1),
            "tokens": round(self._tokens),
        }
        with self._writing():
            with open(self.folder / METRICS, "a", encoding="utf-8") as stream:
                stream.write(json.dumps({**so_far, **numbers}, allow_nan=False) + "\n")
            self._tensorboard.write(part, self.step, _flat(numbers))

    def close(self) -> None:
        """Closes TensorBoard's files."""
        if self._tensorboard is not None:
            with self._writing():
                self._tensorboard.close()

    @contextmanager
    def _writing(self) -> Generator[None, None, None]:
        with writing(self.folder), tensorflow_as_os_errors():
            yield

    def _skipped_in_a_row(self) -> int:
        return int(self.state.skipped_in_a_row.numpy())


TENSORBOARD = "tensorboard"


def cut_metrics(folder: Path, step: int) -> None:
    """Removes log entries of steps after a given step, which will be repeated."""
    cut_events(folder / TENSORBOARD, step)
    kept = [
        json.dumps(row) + "\n" for row in read_metrics(folder) if row["step"] <= step
    ]
    if (folder / METRICS).is_file():
        write_atomically(folder / METRICS, "".join(kept))


def _on_host(x: Any) -> Any:
    """Copies a value of an update from the device: a Python number, or an array."""
    array = keras.ops.convert_to_numpy(x)
    return array if array.ndim else array.item()


def _flat(numbers: Mapping[str, float | Mapping[str, float]]) -> dict[str, float]:
    """Names the numbers of parts for TensorBoard.

    Example:
    >>> _flat({"loss": 2.0, "gradient_norms": {"embeddings": 0.5, "head": 0.1}})
    {'loss': 2.0, 'gradient_norms/embeddings': 0.5, 'gradient_norms/head': 0.1}
    """
    flat: dict[str, float] = {}
    for name, value in numbers.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}/{part}": number for part, number in value.items()}
        else:
            flat[name] = value
    return flat


def _progress_text(line: Mapping[str, float]) -> str:
    """The text beside the progress bar.

    Example:
    >>> _progress_text({"tokens_per_second": 5800, "learning_rate": 3e-4, "mfu": 0.41,
    ...                 "input_wait": 0.002, "loss": 2.5, "gradient_norm": 0.7})
    'loss 2.500, gradient 0.70, rate 3.0e-04, 5,800 tokens/s, MFU 41%, input 0%'
    """
    parts = ["loss not finite"]
    if "loss" in line:
        parts = [f"loss {line['loss']:.3f}", f"gradient {line['gradient_norm']:.2f}"]
    parts.append(f"rate {line['learning_rate']:.1e}")
    parts.append(f"{line['tokens_per_second']:,} tokens/s")
    if "mfu" in line:
        parts.append(f"MFU {line['mfu']:.0%}")
    parts.append(f"input {line['input_wait']:.0%}")
    return ", ".join(parts)


class TensorBoard:
    """Writes a training's metrics as TensorBoard scalars, by optimizer step."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._writers: dict[str, Any] = {}

    def write(self, part: str, step: int, numbers: Mapping[str, float]) -> None:
        if part not in self._writers:
            path = str(self._folder / part)
            self._writers[part] = tf.summary.create_file_writer(path)
        with self._writers[part].as_default(step):
            for name, value in numbers.items():
                tf.summary.scalar(name.removeprefix("val_"), value)
        self._writers[part].flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def cut_events(folder: Path, step: int) -> None:
    """Removes events of steps after `step`, which will be repeated and logged again.

    Raises:
        ArtifactError: A file cannot be written.
    """
    for file in sorted(folder.rglob("events.*")):
        records = list(_records(file))
        steps = [tf.compat.v1.Event.FromString(record).step for record in records]
        if max(steps, default=0) <= step:
            continue
        temporary = file.with_name(f".{os.getpid()}.tmp.{file.name}")
        with writing(file), tensorflow_as_os_errors():
            try:
                with tf.io.TFRecordWriter(str(temporary)) as writer:
                    for record, at in zip(records, steps, strict=True):
                        if at <= step:
                            writer.write(record)
                os.replace(temporary, file)
            finally:
                temporary.unlink(missing_ok=True)


def _records(file: Path) -> Generator[bytes, None, None]:
    """Reads the records of an event file, except a last one that is truncated."""
    with suppress(tf.errors.DataLossError):
        for record in tf.data.TFRecordDataset(str(file)):
            yield bytes(record.numpy())


@contextmanager
def tensorflow_as_os_errors() -> Generator[None, None, None]:
    """A context that converts TensorFlow's disk errors to `OSError`.

    TensorFlow reports a full disk as `ResourceExhaustedError`, the error that it also
    raises when a device is out of memory.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
    except tf.errors.PermissionDeniedError as error:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES)) from error
