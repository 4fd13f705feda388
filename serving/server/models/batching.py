"""Requests that wait are run together, if they are of one kind and about one length.

The names of the parameters are TF Serving's
(https://github.com/tensorflow/serving/blob/master/tensorflow_serving/batching/README.md).
Three things are ours:

- Nobody is padded by a neighbour. TF Serving refuses a batch of unequal shapes, or
  fills it up with whatever stands first, masks included. Here unequal shapes never
  meet, and texts meet those of about their length, because the graph fills up to the
  longest.
- A request that fails does not take its neighbours along: the batch is run again, each
  request alone.
- A request of more rows than a batch holds is cut up, its rows sorted by length.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
from grpc import StatusCode

from serving.server.failures import Failure
from serving.server.models.rows import (
    Answer,
    Arrays,
    cut,
    group_of,
    in_rows,
    joined,
    row_lengths,
)

Run = Callable[[tuple[str, ...], Arrays], dict[str, np.ndarray]]
_Key = tuple[tuple[str, ...], tuple[object, ...]]

_FULL = (
    "The batch scheduling queue to which this task was submitted is full; currently "
    "{found} rows wait, of at most {most}"
)


@dataclass(frozen=True, kw_only=True)
class BatchingParameters:
    """How requests are put together.

    Attributes:
        enabled: Whether at all; if not, each is run as it came.
        max_batch_size: Rows in a batch.
        batch_timeout_micros: How long a batch that is not full waits for more. With 0
            it waits for nobody, and what arrives while another runs goes together.
        max_enqueued_batches: How many full batches may wait; what comes then is
            refused.
        num_batch_threads: Batches that run at once.
        allowed_batch_sizes: A batch is filled up to the next of these by repeating its
            first row. All sizes are allowed if empty.
    """

    enabled: bool = True
    max_batch_size: int = 32
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 64
    num_batch_threads: int = 2
    allowed_batch_sizes: tuple[int, ...] = ()

    @property
    def most_rows(self) -> int:
        """That may wait."""
        return self.max_batch_size * self.max_enqueued_batches


@dataclass
class _Task:
    """Some rows that are to be run."""

    inputs: Arrays
    rows: int
    alone: bool = False
    future: Answer = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


@dataclass
class Timing:
    """What became of the requests of one batch, for the metrics.

    Attributes:
        rows: In it.
        waited: Seconds that its first request waited.
        ran: Seconds.
    """

    rows: int
    waited: float
    ran: float


class Batcher:
    """Threads that run what is submitted, in batches.

    Args:
        run: Runs a kind of request: the names of what is asked, and the inputs.
        parameters: How.
        observe: Is told of each batch.

    Example:
    >>> double = lambda kind, inputs: {"y": 2 * inputs["x"]}
    >>> batcher = Batcher(double, BatchingParameters())
    >>> futures = [batcher.submit(("y",), {"x": np.array([n])}) for n in (1, 2)]
    >>> [int(future.result()["y"][0]) for future in futures]
    [2, 4]
    >>> batcher.close()
    """

    def __init__(
        self,
        run: Run,
        parameters: BatchingParameters,
        observe: Callable[[Timing], None] = lambda timing: None,
    ):
        self._run = run
        self._parameters = parameters
        self._observe = observe
        self._changed = threading.Condition()
        self._waiting: dict[_Key, deque[_Task]] = {}
        self._rows = 0
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{number}", daemon=True)
            for number in range(parameters.num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, kind: tuple[str, ...], inputs: Arrays) -> Answer:
        """Lets rows wait for their turn.

        Args:
            kind: What is asked; only requests of one kind share a batch.
            inputs: Arrays with a row for each thing to predict, as many in each.

        Returns:
            Will hold the outputs. Cancelled before it runs, it is never run.

        Raises:
            Failure: Too many wait already.
        """
        rows = len(next(iter(inputs.values())))
        if not self._parameters.enabled:
            return self.submit_alone(kind, inputs)
        if rows > self._parameters.max_batch_size:
            return self._submit_parts(kind, inputs, rows)
        task = _Task(inputs, rows)
        self._enqueue(kind, [task])
        return task.future

    def submit_alone(self, kind: tuple[str, ...], inputs: Arrays) -> Answer:
        """The same for inputs that are not in rows: they share a batch with nobody."""
        return self._submit_whole(kind, inputs)

    def close(self) -> None:
        """Runs what waits, and ends."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _submit_whole(
        self, kind: tuple[str, ...], inputs: Arrays, *, admitted: bool = False
    ) -> Answer:
        task = _Task(inputs, rows=1, alone=True)
        self._enqueue(kind, [task], admitted=admitted)
        return task.future

    def _submit_parts(self, kind: tuple[str, ...], inputs: Arrays, rows: int) -> Answer:
        order = np.argsort(row_lengths(inputs), kind="stable")
        size = self._parameters.max_batch_size
        places = [order[start : start + size] for start in range(0, rows, size)]
        tasks = [
            _Task({name: values[part] for name, values in inputs.items()}, len(part))
            for part in places
        ]
        self._enqueue(kind, tasks)
        return joined(
            [task.future for task in tasks],
            places,
            lambda: self._submit_whole(kind, inputs, admitted=True),
        )

    def _enqueue(
        self,
        kind: tuple[str, ...],
        tasks: Sequence[_Task],
        *,
        admitted: bool = False,
    ) -> None:
        """Lets them wait.

        Args:
            kind: Of all of them.
            tasks: Parts of one request.
            admitted: They belong to a request that has been accepted before.

        Raises:
            Failure: Too many wait already, or the end has come.
        """
        rows = sum(task.rows for task in tasks)
        most = self._parameters.most_rows
        with self._changed:
            if self._closed and not admitted:
                raise Failure(StatusCode.UNAVAILABLE, "The server is shutting down")
            # One that is alone larger than the queue is let into an empty one.
            if self._rows and self._rows + rows > most and not admitted:
                message = _FULL.format(found=self._rows, most=most)
                raise Failure(StatusCode.RESOURCE_EXHAUSTED, message)
            self._rows += rows
            for task in tasks:
                group = (id(task),) if task.alone else group_of(task.inputs)
                self._waiting.setdefault((kind, group), deque()).append(task)
            self._changed.notify(len(tasks))

    def _work(self) -> None:
        while batch := self._next_batch():
            kind, tasks = batch
            # From here on they cannot be cancelled.
            tasks = [t for t in tasks if t.future.set_running_or_notify_cancel()]
            if tasks:
                self._run_together(kind, tasks)

    def _next_batch(self) -> tuple[tuple[str, ...], list[_Task]] | None:
        """Waits for a batch; nothing when all is done."""
        with self._changed:
            while True:
                key, seconds = self._ready()
                if key is not None and seconds <= 0:
                    break
                if key is None and self._closed:
                    return None
                self._changed.wait(seconds if key is not None else None)
            queue = self._waiting[key]
            tasks = [queue.popleft()]
            rows = tasks[0].rows
            while queue and rows + queue[0].rows <= self._parameters.max_batch_size:
                rows += queue[0].rows
                tasks.append(queue.popleft())
            if not queue:
                del self._waiting[key]
            self._rows -= rows
            return key[0], tasks

    def _ready(self) -> tuple[_Key | None, float]:
        """The queue that is to go first, and how long it may still wait."""
        if not self._waiting:
            return None, 0.0
        full = self._parameters.max_batch_size
        timeout = self._parameters.batch_timeout_micros / 1e6
        now = time.monotonic()

        def remaining(key: _Key) -> float:
            queue = self._waiting[key]
            left = queue[0].since + timeout - now
            if left <= 0:
                return left
            rows = sum(task.rows for task in queue)
            ready = self._closed or queue[0].alone or rows >= full
            return 0.0 if ready else left

        key = min(self._waiting, key=remaining)
        return key, remaining(key)

    def _run_together(self, kind: tuple[str, ...], tasks: list[_Task]) -> None:
        began = time.monotonic()
        try:
            answers = self._answers(kind, tasks)
        except Exception as error:
            # Who waited for one that took too long has no time to begin again.
            too_late = getattr(error, "code", None) is StatusCode.DEADLINE_EXCEEDED
            for task in tasks:
                if too_late or len(tasks) == 1:
                    task.future.set_exception(error)
                else:
                    self._run_together(kind, [task])
            return
        ended = time.monotonic()
        rows = sum(task.rows for task in tasks)
        # Before anybody has an answer: who then reads the metrics finds it counted.
        self._observe(Timing(rows, began - tasks[0].since, ended - began))
        for task, answer in zip(tasks, answers, strict=True):
            task.future.set_result(answer)

    def _answers(
        self, kind: tuple[str, ...], tasks: list[_Task]
    ) -> list[dict[str, np.ndarray]]:
        if tasks[0].alone:
            return [self._run(kind, tasks[0].inputs)]
        rows = [task.rows for task in tasks]
        filled = self._filled(sum(rows))
        outputs = self._run(kind, _put_together(tasks, filled - sum(rows)))
        if in_rows(outputs, filled):
            return cut(outputs, rows)
        if len(tasks) > 1:
            raise ValueError("outputs that are not in rows are nobody's")
        # Whatever they are, they are this one's; but not what the filling made of them.
        return [outputs if filled == rows[0] else self._run(kind, tasks[0].inputs)]

    def _filled(self, rows: int) -> int:
        sizes = self._parameters.allowed_batch_sizes
        return next((size for size in sizes if size >= rows), rows)


def _put_together(tasks: Sequence[_Task], filling: int) -> Arrays:
    if len(tasks) == 1 and not filling:
        return tasks[0].inputs
    found = {}
    for name in tasks[0].inputs:
        parts = [task.inputs[name] for task in tasks]
        found[name] = np.concatenate([*parts, *[parts[0][:1]] * filling])
    return found
