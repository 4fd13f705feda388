"""Requests that wait for a batch: who is let in, and which go next.

Rows of one kind wait together, by about their length; the queue whose first row has
waited longest goes first. What takes long leaves a thread for the others.
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
    group_of,
    longest_text,
)
from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.models.batching.parameters import BatchingParameters

# Is told of a batch: seconds that the request waited, and that it ran.
Told = Callable[[float, float], None]

# Bytes of a text up to which it is an ordinary one.
_LONG = 2**13

_FULL = (
    "The batch scheduling queue to which this task was submitted is full; currently "
    "{found} rows wait, of at most {most}"
)


def tell_nobody(waited: float, ran: float) -> None:
    """See `Told`."""


class BatchKey(NamedTuple):
    """What rows have in common that may share a batch.

    Attributes:
        kind: The names of what is asked.
        group: Their shapes, and about their length.
        takes_long: Whether that takes long.
    """

    kind: tuple[str, ...]
    group: tuple[object, ...]
    takes_long: bool


@dataclass
class BatchTask:
    """Some rows that are to be run.

    Attributes:
        inputs: The rows.
        rows: How many.
        deadline: Until when they are wanted.
        alone: Whether they share a batch with nobody.
        is_part: Whether they are some of many.
        counted: How many of them take room in the queue from others.
        future: Will hold the outputs.
        since: When they began to wait.
        told: Is told when they were run.
    """

    inputs: Arrays
    rows: int
    deadline: Deadline
    told: Told = tell_nobody
    alone: bool = False
    is_part: bool = False
    counted: int = 0
    future: Answer = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class Waiting:
    """Rows that wait, for several threads that take them in batches.

    Args:
        parameters: How.
    """

    def __init__(self, parameters: BatchingParameters):
        self._parameters = parameters
        self._changed = threading.Condition()
        self._queues: dict[BatchKey, deque[BatchTask]] = {}
        self._rows = 0
        self._in_parts = 0  # rows of all requests that are run in parts
        self._taking_long = 0  # batches that are run
        self._closed = False

    @property
    def most_taking_long(self) -> int:
        """Batches that may take long at once."""
        return max(1, self._parameters.num_batch_threads - 1)

    def put(
        self, kind: tuple[str, ...], task: BatchTask, *, admitted: bool = False
    ) -> None:
        """Lets some rows wait.

        Args:
            kind: What is asked.
            task: The rows.
            admitted: They belong to a request that has been accepted before, and take
                no room from others.

        Raises:
            Failure: Too many wait already, or the end has come.
        """
        with self._changed:
            if not admitted:
                if self._rows + task.rows > self._parameters.most_rows:
                    self._forget_cancelled()
                self._admit(task.rows, self._rows)
                task.counted = task.rows
            self._rows += task.counted
            task.since = time.monotonic()
            self._queues.setdefault(_key(kind, task), deque()).append(task)
            self._changed.notify()

    def admit_parts(self, rows: int) -> None:
        """Lets in a request that is run in parts; `leave_parts` ends it.

        Raises:
            Failure: Too many rows of such requests are there already.
        """
        with self._changed:
            self._admit(rows, self._in_parts)
            self._in_parts += rows

    def leave_parts(self, rows: int) -> None:
        """Makes room for another request in parts."""
        with self._changed:
            self._in_parts -= rows

    def take(self) -> tuple[BatchKey, list[BatchTask]] | None:
        """Waits for a batch; `ran` has to follow. Nothing when all is done."""
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
        """A batch is over."""
        if key.takes_long:
            with self._changed:
                self._taking_long -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Lets nobody in; what waits can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _admit(self, rows: int, waiting: int) -> None:
        """Refuses rows that would be too many with those that wait.

        One request that is alone larger than the queue is let into an empty one.

        Raises:
            Failure: They are, or the end has come.
        """
        if self._closed:
            raise StatusError(StatusCode.UNAVAILABLE, "The server is shutting down")
        most = self._parameters.most_rows
        if waiting and waiting + rows > most:
            message = _FULL.format(found=waiting, most=most)
            raise StatusError(StatusCode.RESOURCE_EXHAUSTED, message)

    def _forget_cancelled(self) -> None:
        """Lets go of rows that nobody waits for anymore."""
        for key, queue in list(self._queues.items()):
            left = deque(task for task in queue if not task.future.cancelled())
            self._rows -= sum(t.counted for t in queue if t.future.cancelled())
            if left:
                self._queues[key] = left
            else:
                del self._queues[key]

    def _ready(self) -> tuple[BatchKey | None, float]:
        """The queue that is to go first, and how long it may still wait."""
        keys = [key for key in self._queues if self._may_run(key)]
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

    def _may_run(self, key: BatchKey) -> bool:
        return not key.takes_long or self._taking_long < self.most_taking_long


def _key(kind: tuple[str, ...], task: BatchTask) -> BatchKey:
    group = (id(task),) if task.alone else group_of(task.inputs)
    takes_long = task.is_part or longest_text(task.inputs) > _LONG
    return BatchKey(kind, group, takes_long)
