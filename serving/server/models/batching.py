"""Requests that wait are run together, if they are of one kind and about one length.

The names of the parameters are TF Serving's
(https://github.com/tensorflow/serving/blob/master/tensorflow_serving/batching/README.md).
Five things are ours:

- Nobody is padded by a neighbour. TF Serving refuses a batch of unequal shapes, or
  fills it up with whatever stands first, masks included. Here unequal shapes never
  meet, and texts meet those of about their length, because the graph fills up to the
  longest.
- A request that fails or takes too long does not take its neighbours along: the batch
  is run again, each request alone.
- A request of more rows than a batch holds is cut up, its rows sorted by length. Its
  parts wait in turns with the requests of others.
- What takes long leaves a thread for others: long texts and parts of large requests are
  run by all threads but one, and aside from what others run in TensorFlow.
- Nothing is run for who does not wait for it anymore.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from grpc import StatusCode

from serving.server.deadlines import Deadline
from serving.server.failures import Failure
from serving.server.models.rows import (
    Answer,
    Arrays,
    cut,
    group_of,
    in_rows,
    joined,
    longest_text,
    row_lengths,
)

Run = Callable[[tuple[str, ...], Arrays, float, bool], dict[str, np.ndarray]]

# Is told of a batch: seconds that the request waited, and that it ran.
Told = Callable[[float, float], None]

# Bytes of a text up to which it is an ordinary one.
_LONG = 2**13

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


def tell_nobody(waited: float, ran: float) -> None:
    """See `Told`."""


class _Key(NamedTuple):
    """What rows have in common that may share a batch, and whether that takes long."""

    kind: tuple[str, ...]
    group: tuple[object, ...]
    takes_long: bool


@dataclass
class _Task:
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
        run: Runs a kind of request: the names of what is asked, the inputs, the
            seconds that it may take, and whether it takes long.
        parameters: How.
        observe: Is told of each batch.

    Example:
    >>> double = lambda kind, inputs, *how: {"y": 2 * inputs["x"]}
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
        self._in_parts = 0  # rows of all requests that are run in parts
        self._taking_long = 0  # batches that are run
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{number}", daemon=True)
            for number in range(parameters.num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self,
        kind: tuple[str, ...],
        inputs: Arrays,
        deadline: Deadline | None = None,
        told: Told = tell_nobody,
    ) -> Answer:
        """Lets rows wait for their turn.

        Args:
            kind: What is asked; only requests of one kind share a batch.
            inputs: Arrays with a row for each thing to predict, as many in each.
            deadline: Until when the answer is wanted; never mind if left out.
            told: Is told of each batch that has some of the rows.

        Returns:
            Will hold the outputs. Cancelled before it runs, it is never run.

        Raises:
            Failure: Too many wait already.
        """
        deadline = deadline or Deadline.never()
        rows = len(next(iter(inputs.values())))
        if not self._parameters.enabled:
            return self.submit_alone(kind, inputs, deadline, told)
        if rows > self._parameters.max_batch_size:
            return self._submit_parts(kind, inputs, deadline, told)
        task = _Task(inputs, rows, deadline, told)
        self._enqueue(kind, task)
        return task.future

    def submit_alone(
        self,
        kind: tuple[str, ...],
        inputs: Arrays,
        deadline: Deadline | None = None,
        told: Told = tell_nobody,
    ) -> Answer:
        """The same for inputs that are not in rows: they share a batch with nobody."""
        return self._submit_whole(kind, inputs, deadline or Deadline.never(), told)

    def close(self) -> None:
        """Runs what waits, and ends."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _submit_whole(
        self,
        kind: tuple[str, ...],
        inputs: Arrays,
        deadline: Deadline,
        told: Told,
        *,
        admitted: bool = False,
    ) -> Answer:
        task = _Task(inputs, rows=1, deadline=deadline, told=told, alone=True)
        self._enqueue(kind, task, admitted=admitted)
        return task.future

    def _submit_parts(
        self, kind: tuple[str, ...], inputs: Arrays, deadline: Deadline, told: Told
    ) -> Answer:
        lengths = row_lengths(inputs)
        rows, size = len(lengths), self._parameters.max_batch_size
        with self._changed:
            self._admit(rows, self._in_parts)
            self._in_parts += rows
        order = np.argsort(lengths, kind="stable")
        places = [order[start : start + size] for start in range(0, rows, size)]
        tasks = [
            _Task(
                {name: values[part] for name, values in inputs.items()},
                len(part),
                deadline,
                told,
                is_part=True,
            )
            for part in places
        ]
        answer = joined(
            [task.future for task in tasks],
            places,
            lambda: self._submit_whole(kind, inputs, deadline, told, admitted=True),
        )
        answer.add_done_callback(lambda _: self._leave(rows))
        # As many of its parts wait as can be run at once, each behind what has come
        # meanwhile; so it takes no more of the time than others do.
        coming = iter(tasks)

        def next_part(_: Answer | None = None) -> None:
            with self._changed:
                task = next((t for t in coming if not t.future.done()), None)
            if task is not None:
                task.future.add_done_callback(next_part)
                self._enqueue(kind, task, admitted=True)

        for _ in range(self._most_taking_long):
            next_part()
        return answer

    @property
    def _most_taking_long(self) -> int:
        return max(1, self._parameters.num_batch_threads - 1)

    def _leave(self, rows: int) -> None:
        with self._changed:
            self._in_parts -= rows

    def _enqueue(
        self, kind: tuple[str, ...], task: _Task, *, admitted: bool = False
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
            self._waiting.setdefault(_key(kind, task), deque()).append(task)
            self._changed.notify()

    def _admit(self, rows: int, waiting: int) -> None:
        """Refuses rows that would be too many with those that wait.

        One request that is alone larger than the queue is let into an empty one.

        Raises:
            Failure: They are, or the end has come.
        """
        if self._closed:
            raise Failure(StatusCode.UNAVAILABLE, "The server is shutting down")
        most = self._parameters.most_rows
        if waiting and waiting + rows > most:
            message = _FULL.format(found=waiting, most=most)
            raise Failure(StatusCode.RESOURCE_EXHAUSTED, message)

    def _forget_cancelled(self) -> None:
        """Lets go of rows that nobody waits for anymore."""
        for key, queue in list(self._waiting.items()):
            left = deque(task for task in queue if not task.future.cancelled())
            self._rows -= sum(t.counted for t in queue if t.future.cancelled())
            if left:
                self._waiting[key] = left
            else:
                del self._waiting[key]

    def _work(self) -> None:
        while batch := self._next_batch():
            key, tasks = batch
            # From here on they cannot be cancelled.
            tasks = [t for t in tasks if t.future.set_running_or_notify_cancel()]
            if tasks:
                self._run_together(key, tasks)
            if key.takes_long:
                with self._changed:
                    self._taking_long -= 1
                    self._changed.notify_all()

    def _next_batch(self) -> tuple[_Key, list[_Task]] | None:
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
            self._rows -= sum(task.counted for task in tasks)
            self._taking_long += key.takes_long
            return key, tasks

    def _ready(self) -> tuple[_Key | None, float]:
        """The queue that is to go first, and how long it may still wait."""
        keys = [key for key in self._waiting if self._may_run(key)]
        if not keys:
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

        key = min(keys, key=remaining)
        return key, remaining(key)

    def _may_run(self, key: _Key) -> bool:
        return not key.takes_long or self._taking_long < self._most_taking_long

    def _run_together(self, key: _Key, tasks: list[_Task]) -> None:
        together = len(tasks) > 1
        seconds = max(task.deadline.left() for task in tasks)
        # Should one of them take all the time, there is half of it for the others.
        error = self._answer(key, tasks, seconds / 2 if together else seconds)
        if error is not None and together:
            self._run_one_by_one(key, tasks)
        elif error is not None:
            tasks[0].future.set_exception(error)

    def _run_one_by_one(self, key: _Key, tasks: list[_Task]) -> None:
        """Runs each without its neighbours, and those that take long after the rest."""
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
        self, key: _Key, tasks: list[_Task], seconds: float
    ) -> Exception | None:
        """Answers all of them, or none and tells why."""
        began = time.monotonic()
        try:
            answers = self._answers(key, tasks, seconds)
        except Exception as error:
            return error
        ended = time.monotonic()
        rows = sum(task.rows for task in tasks)
        # Before anybody has an answer: who then reads the metrics finds it counted.
        self._observe(Timing(rows, began - tasks[0].since, ended - began))
        for task, answer in zip(tasks, answers, strict=True):
            task.told(began - task.since, ended - began)
            task.future.set_result(answer)
        return None

    def _answers(
        self, key: _Key, tasks: list[_Task], seconds: float
    ) -> list[dict[str, np.ndarray]]:
        if seconds <= 0:
            raise tasks[0].deadline.missed()

        def run(inputs: Arrays) -> dict[str, np.ndarray]:
            return self._run(key.kind, inputs, seconds, key.takes_long)

        if tasks[0].alone:
            return [run(tasks[0].inputs)]
        rows = [task.rows for task in tasks]
        filled = self._filled(sum(rows))
        outputs = run(_put_together(tasks, filled - sum(rows)))
        if in_rows(outputs, filled):
            return cut(outputs, rows)
        if len(tasks) > 1:
            raise ValueError("outputs that are not in rows are nobody's")
        # Whatever they are, they are this one's; but not what the filling made of them.
        if filled == rows[0]:
            return [outputs]
        return [run(tasks[0].inputs)]

    def _filled(self, rows: int) -> int:
        sizes = self._parameters.allowed_batch_sizes
        return next((size for size in sizes if size >= rows), rows)


def _key(kind: tuple[str, ...], task: _Task) -> _Key:
    group = (id(task),) if task.alone else group_of(task.inputs)
    takes_long = task.is_part or longest_text(task.inputs) > _LONG
    return _Key(kind, group, takes_long)


def _put_together(tasks: Sequence[_Task], filling: int) -> Arrays:
    if len(tasks) == 1 and not filling:
        return tasks[0].inputs
    found = {}
    for name in tasks[0].inputs:
        parts = [task.inputs[name] for task in tasks]
        found[name] = np.concatenate([*parts, *[parts[0][:1]] * filling])
    return found
