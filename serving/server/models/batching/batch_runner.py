"""Runs batches and isolates requests from the errors of other requests.

If a batch fails or exceeds its time limit, each of its requests is run again alone.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from grpc import StatusCode

from transbeam.serving.server.base.batched_arrays import Arrays, in_rows, split_batch
from transbeam.serving.server.models.batching.batch_queue import (
    BatchingParameters,
    BatchKey,
    BatchTask,
)

Run = Callable[[tuple[str, ...], Arrays, float, bool], dict[str, np.ndarray]]


@dataclass
class Timing:
    """Size and times of a batch, for the metrics.

    Attributes:
        rows: Number of rows.
        waited: Seconds for which the first task of the batch was queued.
        ran: Run time of the batch in seconds.
    """

    rows: int
    waited: float
    ran: float


class Runner:
    """Runs batches of tasks.

    Args:
        run: Runs a signature; takes the names of the signature and the outputs, the
            inputs, the timeout in seconds, and True for long tasks.
        parameters: Batching parameters; batches are padded to one of
            `allowed_batch_sizes`.
        observe: Called with the timing of each batch.
    """

    def __init__(
        self,
        run: Run,
        parameters: BatchingParameters,
        observe: Callable[[Timing], None],
    ):
        self._run = run
        self._parameters = parameters
        self._observe = observe

    def run(self, key: BatchKey, tasks: list[BatchTask]) -> None:
        """Runs tasks as a batch and sets their futures.

        Args:
            key: Batching key of the tasks.
            tasks: One or more tasks that can no longer be canceled.
        """
        together = len(tasks) > 1
        seconds = max(task.deadline.left() for task in tasks)
        # Half of the time is reserved for a second run, one task at a time.
        error = self._answer(key, tasks, seconds / 2 if together else seconds)
        if error is not None and together:
            self._run_one_by_one(key, tasks)
        elif error is not None:
            tasks[0].future.set_exception(error)

    def _run_one_by_one(self, key: BatchKey, tasks: list[BatchTask]) -> None:
        """Runs each task alone; retries timed-out tasks after all other tasks."""
        slow = []
        for task in tasks:
            error = self._answer(key, [task], task.deadline.left() / 2)
            if getattr(error, "code", None) is StatusCode.DEADLINE_EXCEEDED:
                slow.append(task)
            elif error is not None:
                task.future.set_exception(error)
        for task in slow:
            error = self._answer(key, [task], task.deadline.left())
            if error is not None:
                task.future.set_exception(error)

    def _answer(
        self, key: BatchKey, tasks: list[BatchTask], seconds: float
    ) -> Exception | None:
        """Runs tasks as one batch; sets their futures, or returns the error."""
        began = time.monotonic()
        try:
            answers = self._answers(key, tasks, seconds)
        except Exception as error:
            return error
        ended = time.monotonic()
        # Before the futures are set: a client with a response finds its batch counted.
        self._observe(
            Timing(
                sum(task.rows for task in tasks),
                began - tasks[0].since,
                ended - began,
            )
        )
        for task, answer in zip(tasks, answers, strict=True):
            task.observe_times(began - task.since, ended - began)
            task.future.set_result(answer)
        return None

    def _answers(
        self, key: BatchKey, tasks: list[BatchTask], seconds: float
    ) -> list[dict[str, np.ndarray]]:
        if seconds <= 0:
            raise tasks[0].deadline.missed()

        def run(inputs: Arrays) -> dict[str, np.ndarray]:
            return self._run(key.kind, inputs, seconds, key.takes_long)

        if tasks[0].alone:
            return [run(tasks[0].inputs)]
        rows = [task.rows for task in tasks]
        total, sizes = sum(rows), self._parameters.allowed_batch_sizes
        filled = next((size for size in sizes if size >= total), total)
        outputs = run(_put_together(tasks, filled - total))
        if in_rows(outputs, filled):
            return split_batch(outputs, rows)
        if len(tasks) > 1:
            raise ValueError("outputs that are not in rows are nobody's")
        # A single task may have outputs without a batch axis, but padding would change
        # them.
        if filled == rows[0]:
            return [outputs]
        return [run(tasks[0].inputs)]


def _put_together(tasks: Sequence[BatchTask], filling: int) -> Arrays:
    if len(tasks) == 1 and not filling:
        return tasks[0].inputs
    found = {}
    for name in tasks[0].inputs:
        parts = [task.inputs[name] for task in tasks]
        found[name] = np.concatenate([*parts, *[parts[0][:1]] * filling])
    return found
