"""Queue of tasks that wait to be batched, and the parameters of batching.

The parameters have TF Serving's names
(https://github.com/tensorflow/serving/blob/master/tensorflow_serving/batching/README.md).

Tasks that may share a batch wait in one queue, grouped by text length; the queue whose
first task has waited longest is served first. Long tasks leave at least one thread free
for other tasks, unless there is only one thread.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from grpc import StatusCode

from transbeam.serving.server.base.batched_arrays import (
    Answer,
    Arrays,
    bucket_key,
    longest_text,
)
from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.base.status import StatusError

# Called after each batch with the seconds that a task was queued and was run.
ObserveTimes = Callable[[float, float], None]

# Bytes of a text above which a task is a long one.
_LONG = 2**13


def ignore_times(waited: float, ran: float) -> None:
    """Ignores the waiting time and run time of a batch; see `ObserveTimes`."""


@dataclass(frozen=True, kw_only=True)
class BatchingParameters:
    """Parameters of request batching.

    Attributes:
        enabled: False to run each request alone.
        max_batch_size: Maximum number of rows in a batch.
        batch_timeout_micros: Microseconds that a batch that is not full waits for more
            rows. With 0, a batch starts as soon as a thread is free; requests that
            arrive during a run still share the next batch.
        max_enqueued_batches: Maximum number of full batches in the queue; further
            requests are rejected.
        num_batch_threads: Number of batches that run at once.
        allowed_batch_sizes: Batch sizes to pad to, by repeating the first row. If
            empty, batches are not padded.
    """

    enabled: bool = True
    max_batch_size: int = 32
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 64
    num_batch_threads: int = 2
    allowed_batch_sizes: tuple[int, ...] = ()

    @property
    def most_rows(self) -> int:
        """Maximum number of queued rows."""
        return self.max_batch_size * self.max_enqueued_batches


class BatchKey(NamedTuple):
    """Batching key: tasks with equal keys may share a batch.

    Attributes:
        kind: Names of the signature and of the requested outputs.
        group: Dtypes, row shapes and length bucket of the inputs.
        takes_long: True if the task has a text of more than 8 KiB or is a part of a
            split request.
    """

    kind: tuple[str, ...]
    group: tuple[object, ...]
    takes_long: bool


@dataclass
class BatchTask:
    """Rows of one request that are run together.

    Attributes:
        inputs: Inputs of the rows.
        rows: Number of rows.
        deadline: Deadline of the request.
        alone: True if the task must not share a batch.
        is_part: True if the rows are a part of a request that was split.
        counted: Number of rows counted toward the queue limit.
        future: Future of the outputs.
        since: Time at which the task was queued.
        observe_times: Called after the task's batch with the task's waiting time and
            run time in seconds.
    """

    inputs: Arrays
    rows: int
    deadline: Deadline
    observe_times: ObserveTimes = ignore_times
    alone: bool = False
    is_part: bool = False
    counted: int = 0
    future: Answer = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class TaskQueues:
    """Queues of tasks, from which worker threads take batches.

    Args:
        parameters: Batching parameters.
    """

    def __init__(self, parameters: BatchingParameters):
        self._parameters = parameters
        self._changed = threading.Condition()
        self._queues: dict[BatchKey, deque[BatchTask]] = {}
        self._rows = 0
        self._in_parts = 0  # rows of all requests that were split
        self._taking_long = 0  # long batches in progress
        self._closed = False

    @property
    def most_taking_long(self) -> int:
        """Maximum number of long batches that run at once."""
        return max(1, self._parameters.num_batch_threads - 1)

    def put(
        self, kind: tuple[str, ...], task: BatchTask, *, admitted: bool = False
    ) -> None:
        """Queues a task.

        Args:
            kind: Name of the signature and of the requested outputs.
            task: The task.
            admitted: True if the task's request was admitted before; the task's rows
                are then not counted toward the queue limit.

        Raises:
            StatusError: The queue is full or closed.
        """
        key = BatchKey(
            kind,
            (id(task),) if task.alone else bucket_key(task.inputs),
            task.is_part or longest_text(task.inputs) > _LONG,
        )
        with self._changed:
            if not admitted:
                if self._rows + task.rows > self._parameters.most_rows:
                    self._forget_cancelled()
                self._admit(task.rows, self._rows)
                task.counted = task.rows
            self._rows += task.counted
            task.since = time.monotonic()
            self._queues.setdefault(key, deque()).append(task)
            self._changed.notify()

    def admit_parts(self, rows: int) -> None:
        """Admits a request that is split into parts; `leave_parts` releases its rows.

        Raises:
            StatusError: The split requests in progress already have too many rows, or
                the queue is closed.
        """
        with self._changed:
            self._admit(rows, self._in_parts)
            self._in_parts += rows

    def leave_parts(self, rows: int) -> None:
        """Releases the rows of a finished request that was split."""
        with self._changed:
            self._in_parts -= rows

    def take(self) -> tuple[BatchKey, list[BatchTask]] | None:
        """Waits for a batch, to be finished by `ran`; None once closed and empty."""
        with self._changed:
            while True:
                key, seconds = self._ready()
                if key is not None and seconds <= 0:
                    break
                if key is None and self._closed:
                    return None
                self._changed.wait(seconds if key is not None else None)
            queue = self._queues[key]
            tasks = [queue.popleft()]
            rows = tasks[0].rows
            while queue and rows + queue[0].rows <= self._parameters.max_batch_size:
                rows += queue[0].rows
                tasks.append(queue.popleft())
            if not queue:
                del self._queues[key]
            self._rows -= sum(task.counted for task in tasks)
            self._taking_long += key.takes_long
            return key, tasks

    def ran(self, key: BatchKey) -> None:
        """Marks a batch as finished."""
        if key.takes_long:
            with self._changed:
                self._taking_long -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Rejects new tasks; queued tasks can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _admit(self, rows: int, waiting: int) -> None:
        """Raises an error if the rows do not fit into the queue.

        A request larger than the whole queue is admitted if the queue is empty.

        Raises:
            StatusError: The queue is full or closed.
        """
        if self._closed:
            raise StatusError(StatusCode.UNAVAILABLE, "The server is shutting down")
        most = self._parameters.most_rows
        if waiting and waiting + rows > most:
            raise StatusError(
                StatusCode.RESOURCE_EXHAUSTED,
                "The batch scheduling queue to which this task was submitted is full; "
                f"currently {waiting} rows wait, of at most {most}",
            )

    def _forget_cancelled(self) -> None:
        """Removes canceled tasks from the queues."""
        for key, queue in list(self._queues.items()):
            left = deque(task for task in queue if not task.future.cancelled())
            self._rows -= sum(t.counted for t in queue if t.future.cancelled())
            if left:
                self._queues[key] = left
            else:
                del self._queues[key]

    def _ready(self) -> tuple[BatchKey | None, float]:
        """Returns the key of the queue to run next, and the seconds until its run."""
        may_take_long = self._taking_long < self.most_taking_long
        keys = [key for key in self._queues if may_take_long or not key.takes_long]
        if not keys:
            return None, 0.0
        full = self._parameters.max_batch_size
        timeout = self._parameters.batch_timeout_micros / 1e6
        now = time.monotonic()

        def remaining(key: BatchKey) -> float:
            queue = self._queues[key]
            left = queue[0].since + timeout - now
            if left <= 0:
                return left
            rows = sum(task.rows for task in queue)
            ready = self._closed or queue[0].alone or rows >= full
            return 0.0 if ready else left

        key = min(keys, key=remaining)
        return key, remaining(key)
