"""The numbers of a training, written down while it runs."""

import json
import math
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np

from transbeam.configs.base.atomic_files import write_atomically, writing
from transbeam.configs.cli.progress import Bar
from transbeam.trainer.evaluation.evaluation_loop import (
    EvaluationMetrics,
    NotFiniteError,
    means,
)
from transbeam.trainer.loop.tensorboard import (
    TensorBoard,
    cut_events,
    tensorflow_as_os_errors,
)
from transbeam.trainer.step.state import TrainState


class TrainingLog:
    """Shows a training's numbers, and writes `metrics.jsonl` and TensorBoard's files.

    Steps are added as they come, without waiting for their results; these are fetched
    for several at a time, since a device goes on working meanwhile. A line holds the
    means over all targets since the line before, without the steps that were skipped.

    Args:
        folder: Where the files go.
        progress: The bar to move.
        state: For the learning rate, and how many steps were skipped.
        step: Updates done before.
        every: Steps per line.
        max_skipped: How many steps in a row may be skipped.
        writes: Whether to; one worker of several does.
        step_seconds: How long a step would take if the devices did nothing but its
            arithmetic at their best: what `mfu` is a share of.
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
        self._tokens = before["tokens"]  # real ones, of the steps written down
        self._start = time.perf_counter() - before["seconds"]
        self._waiting: list[Any] = []
        self._input_seconds = 0.0
        self._began = time.perf_counter()

    def add(self, numbers: Mapping[str, Any], input_seconds: float) -> None:
        """Counts a step.

        Args:
            numbers: As an update gives them.
            input_seconds: How long it waited for its batch.

        Raises:
            NotFiniteError: Too many steps in a row were skipped.
        """
        self.step += 1
        self._waiting.append(numbers)
        self._input_seconds += input_seconds
        self.progress.advance(1)
        is_line = self.step % self.every == 0
        # Not at each step: it waits for the device.
        is_check = self.step % self.max_skipped == 0
        if is_line or (is_check and self._skipped_in_a_row() >= self.max_skipped):
            self.flush()

    def flush(self) -> None:
        """Writes a line of the steps since the last."""
        if not self._waiting:
            return
        steps = [_fetch(numbers) for numbers in self._waiting]
        seconds = max(time.perf_counter() - self._began, 1e-9)
        used = [step for step in steps if not step["skipped"]]
        line: dict[str, Any] = {}
        if used:
            total = keras.tree.map_structure(
                lambda *x: sum(x), *(step["sums"] for step in used)
            )
            line |= means(total).as_json()
            line["gradient_norm"] = float(np.mean([s["gradient_norm"] for s in used]))
        line["learning_rate"] = self.state.last_learning_rate()
        tokens = sum(step["tokens"] for step in steps)
        self._tokens += tokens
        line["tokens_per_second"] = round(tokens / seconds)
        line |= self._utilization(len(steps) / seconds)
        line["input_wait"] = round(self._input_seconds / seconds, 4)
        if skipped := len(steps) - len(used):
            line["skipped"] = skipped
        self.write("train", **line)
        self.progress.describe(_told(line))
        self.restart_clock()
        self._waiting.clear()
        self._check_skipped()

    def _utilization(self, steps_per_second: float) -> dict[str, float]:
        """`mfu`, unless the devices are found to be faster than when they were tried.

        Other work on the machine slows the trial down; what is measured against it is
        wrong from the beginning, but known to be so from here on.
        """
        used = steps_per_second * self.step_seconds
        if used > 1:
            self.step_seconds = 0.0
        return {"mfu": round(used, 4)} if 0 < used <= 1 else {}

    def restart_clock(self) -> None:
        """Leaves what has happened since the last line out of the rates."""
        self._began, self._input_seconds = time.perf_counter(), 0.0

    def validated(self, found: EvaluationMetrics) -> None:
        """Writes down what a validation found, but for what is not finite."""
        numbers = {f"val_{name}": value for name, value in found.as_json().items()}
        finite = {name: x for name, x in numbers.items() if math.isfinite(x)}
        self.write("validation", **finite)

    def write(self, part: str, **numbers: float) -> None:
        """Appends a line; a crash can at worst cut the last one short.

        Raises:
            ArtifactError: The disk refuses.
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
            self._tensorboard.write(part, self.step, numbers)

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

    def _check_skipped(self) -> None:
        skipped = self._skipped_in_a_row()
        if skipped >= self.max_skipped:
            raise NotFiniteError(
                f"step {self.step:,}: the loss or its gradient was not finite for "
                f"{skipped} steps in a row "
                f"(training.max_skipped_steps={self.max_skipped}); the weights are "
                "those from before. Try a lower training.schedule.peak, more "
                "warmup_steps, or another training.precision; or look for records "
                "that are not like the others"
            )


METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """The lines of a training's log, but for one that a crash cut short."""
    path = folder / METRICS
    rows = []
    for line in path.read_text("utf-8").splitlines() if path.is_file() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def time_and_tokens(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """How long the steps of a training took, and how many real tokens they read.

    Stops in between do not count, nor do steps that a kill made be done again.

    Args:
        rows: The lines of `metrics.jsonl`.

    Returns:
        `seconds`, `tokens` and `tokens_per_second`.

    Example:
    >>> time_and_tokens([{"step": 10, "seconds": 2.0, "tokens": 4096, "loss": 5.1}])
    {'seconds': 2.0, 'tokens': 4096, 'tokens_per_second': 2048}
    """
    last = rows[-1] if rows else {}
    seconds, tokens = last.get("seconds", 0.0), last.get("tokens", 0)
    rate = round(tokens / seconds) if seconds else 0
    return {"seconds": seconds, "tokens": tokens, "tokens_per_second": rate}


def cut_metrics(folder: Path, step: int) -> None:
    """Drops what was written of later steps: they will be done again."""
    cut_events(folder / TENSORBOARD, step)
    kept = [
        json.dumps(row) + "\n" for row in read_metrics(folder) if row["step"] <= step
    ]
    if (folder / METRICS).is_file():
        write_atomically(folder / METRICS, "".join(kept))


def _told(line: Mapping[str, float]) -> str:
    """What stands beside the bar.

    Example:
    >>> _told({"tokens_per_second": 5800, "learning_rate": 3e-4, "mfu": 0.41,
    ...        "input_wait": 0.002, "loss": 2.5, "gradient_norm": 0.7})
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


def _fetch(numbers):
    """Out of the device's memory: Python's numbers."""
    return keras.tree.map_structure(
        lambda x: keras.ops.convert_to_numpy(x).item(), dict(numbers)
    )
