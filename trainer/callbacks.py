"""What happens beside the fit: numbers written down, checkpoints, an orderly stop."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import keras

from configs.progress import Bar
from trainer.checkpoint import Position, save_checkpoint

Logs = Any  # a dict of numbers, which Keras declares optional and always passes


class StepLog(keras.callbacks.Callback):
    """Counts steps over the whole run, shows them, and writes `metrics.jsonl`.

    Keras reports the mean since the interval began; the log holds the mean since the
    last line, which is what a curve needs.

    Args:
        path: The file to append to.
        progress: The bar to move.
        step: Updates done before this fit.
        every: Steps per line.
        tokens_per_step: Real tokens in a batch, for the rate shown.
    """

    def __init__(
        self,
        path: Path,
        progress: Bar,
        *,
        step: int,
        every: int,
        tokens_per_step: float,
    ):
        super().__init__()
        self.path = path
        self.progress = progress
        self.step = step
        self.every = every
        self.tokens_per_step = tokens_per_step
        self._in_interval = 0
        self._logged = (0, 0.0)  # steps and summed loss of this interval, at last line
        self._time = time.perf_counter()

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._in_interval, self._logged = 0, (0, 0.0)
        self._time = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.step += 1
        self._in_interval += 1
        self.progress.advance(1)
        steps, total = self._logged
        if self._in_interval - steps < self.every:
            return
        new_total = logs["loss"] * self._in_interval
        loss = (new_total - total) / (self._in_interval - steps)
        now = time.perf_counter()
        rate = (self._in_interval - steps) * self.tokens_per_step / (now - self._time)
        self.write(
            loss=loss,
            learning_rate=float(self.model.optimizer.learning_rate),
            tokens_per_second=round(rate),
        )
        self.progress.describe(f"loss {loss:.3f}, {rate:,.0f} tokens/s")
        self._logged, self._time = (self._in_interval, new_total), now

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.write(**{name: v for name, v in logs.items() if name.startswith("val_")})

    def write(self, **numbers: float) -> None:
        """Appends a line; a crash can at worst cut the last one short."""
        with open(self.path, "a", encoding="utf-8") as stream:
            stream.write(json.dumps({"step": self.step, **numbers}) + "\n")


class TensorBoardLog(keras.callbacks.Callback):
    """Loss, learning rate and validation for TensorBoard, by optimizer step."""

    def __init__(self, folder: Path, steps: StepLog):
        super().__init__()
        import tensorflow as tf

        self._summary = tf.summary
        self._writers = {
            name: tf.summary.create_file_writer(str(folder / name))
            for name in ("train", "validation")
        }
        self.steps = steps

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        rate = float(self.model.optimizer.learning_rate)
        with self._writers["train"].as_default(self.steps.step):
            self._summary.scalar("learning_rate", rate)
            for name, value in logs.items():
                if not name.startswith("val_"):
                    self._summary.scalar(name, value)
        with self._writers["validation"].as_default(self.steps.step):
            for name, value in logs.items():
                if name.startswith("val_"):
                    self._summary.scalar(name.removeprefix("val_"), value)
        for writer in self._writers.values():
            writer.flush()

    def on_train_end(self, logs: Logs = None) -> None:
        for writer in self._writers.values():
            writer.close()


class Checkpoints(keras.callbacks.Callback):
    """Saves at every interval, and stops the fit at the last step or when asked to.

    The first SIGINT (Ctrl-C) or SIGTERM lets the step in progress end, saves, and
    raises KeyboardInterrupt; a second one does not wait.

    Args:
        folder: Where checkpoints go.
        steps: Counts the steps of the run.
        last_step: The step to stop at.
        batch_size: Records per step, for the position in the data.
        keep: How many checkpoints to leave.
        say: Tells the user that the stop is under way.
    """

    def __init__(
        self,
        folder: Path,
        steps: StepLog,
        *,
        last_step: int,
        batch_size: int,
        keep: int,
        say: Callable[[str], None],
    ):
        super().__init__()
        self.folder = folder
        self.steps = steps
        self.last_step = last_step
        self.batch_size = batch_size
        self.keep = keep
        self.say = say
        self._asked_to_stop = False
        self._handlers: dict[int, Any] = {}

    def on_train_begin(self, logs: Logs = None) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._handlers[number] = signal.signal(number, self._stop)

    def on_train_end(self, logs: Logs = None) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self._asked_to_stop:
            raise KeyboardInterrupt
        self._asked_to_stop = True
        self.say("stopping after this step; once more to stop at once")

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if self._asked_to_stop:
            self.save()
            raise KeyboardInterrupt
        if self.steps.step >= self.last_step:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.save()

    def save(self) -> None:
        """Writes a checkpoint of this moment."""
        step = self.steps.step
        position = Position(step, step * self.batch_size)
        save_checkpoint(self.folder, self.model, position, self.keep)
