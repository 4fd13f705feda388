"""Batches requests of one signature and of similar text length.

Batching differs from TF Serving's in five ways:

- No request is padded to the shape of another request. TF Serving rejects a batch of
  unequal shapes, or pads all inputs, even masks, with their first element. This batcher
  only batches requests of equal shapes, and batches texts by length, because the graph
  pads each batch to its longest text.
- A batch that fails or exceeds its time limit is run again, each request alone.
- A request with more rows than `max_batch_size` is sorted by length and split. The
  parts of a split request take turns with other requests in the queue.
- Long texts and parts of split requests leave at least one of several threads free for
  other requests, and TensorFlow runs them in a separate thread pool.
- A canceled request is not run.
"""

import threading
from collections.abc import Callable

import numpy as np

from transbeam.serving.server.base.batched_arrays import (
    Answer,
    Arrays,
    ConcatenatedRows,
    row_lengths,
)
from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.models.batching.batch_queue import (
    BatchingParameters,
    BatchTask,
    ObserveTimes,
    TaskQueues,
    ignore_times,
)
from transbeam.serving.server.models.batching.batch_runner import Run, Runner, Timing


class Batcher:
    """Worker threads that run submitted requests in batches.

    Args:
        run: Runs a signature; takes the names of the signature and the outputs, the
            inputs, the timeout in seconds, and True for long tasks.
        parameters: Batching parameters.
        observe: Called with the timing of each batch.

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
        self._parameters = parameters
        self._waiting = TaskQueues(parameters)
        self._runner = Runner(run, parameters, observe)
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
        observe_times: ObserveTimes = ignore_times,
    ) -> Answer:
        """Queues rows to be run.

        Args:
            kind: Names of the signature and of the outputs; only requests with equal
                names share a batch.
            inputs: Inputs with the same number of rows.
            deadline: Deadline of the request; None for no deadline.
            observe_times: Called with the times of each batch that contains some of
                the rows.

        Returns:
            A future of the outputs. If the future is canceled before its batch runs,
            its rows are removed from the batch.

        Raises:
            StatusError: The queue is full or closed.
        """
        deadline = deadline or Deadline.never()
        rows = len(next(iter(inputs.values())))
        if not self._parameters.enabled:
            return self.submit_alone(kind, inputs, deadline, observe_times)
        if rows > self._parameters.max_batch_size:
            return self._submit_parts(kind, inputs, deadline, observe_times)
        task = BatchTask(inputs, rows, deadline, observe_times)
        self._waiting.put(kind, task)
        return task.future

    def submit_alone(
        self,
        kind: tuple[str, ...],
        inputs: Arrays,
        deadline: Deadline | None = None,
        observe_times: ObserveTimes = ignore_times,
        *,
        admitted: bool = False,
    ) -> Answer:
        """Queues inputs without a common batch axis, which cannot share a batch.

        Args:
            kind: See `submit`.
            inputs: Inputs of any shape.
            deadline: See `submit`.
            observe_times: See `submit`.
            admitted: See `TaskQueues.put`.
        """
        deadline = deadline or Deadline.never()
        task = BatchTask(
            inputs, rows=1, deadline=deadline, observe_times=observe_times, alone=True
        )
        self._waiting.put(kind, task, admitted=admitted)
        return task.future

    def close(self) -> None:
        """Runs the queued requests and ends the threads."""
        self._waiting.close()
        for thread in self._threads:
            thread.join()

    def _submit_parts(
        self,
        kind: tuple[str, ...],
        inputs: Arrays,
        deadline: Deadline,
        observe_times: ObserveTimes,
    ) -> Answer:
        lengths = row_lengths(inputs)
        rows, size = len(lengths), self._parameters.max_batch_size
        self._waiting.admit_parts(rows)
        order = np.argsort(lengths, kind="stable")
        indices = [order[start : start + size] for start in range(0, rows, size)]
        tasks = [
            BatchTask(
                {name: values[part] for name, values in inputs.items()},
                len(part),
                deadline,
                observe_times,
                is_part=True,
            )
            for part in indices
        ]
        answer = ConcatenatedRows(
            [task.future for task in tasks],
            indices,
            lambda: self.submit_alone(
                kind, inputs, deadline, observe_times, admitted=True
            ),
        ).answer
        answer.add_done_callback(lambda _: self._waiting.leave_parts(rows))
        # Only as many parts are queued as can run at once, each behind the requests
        # that arrived meanwhile, so a large request takes no more than its share.
        coming, one_by_one = iter(tasks), threading.Lock()

        def next_part(_: Answer | None = None) -> None:
            with one_by_one:
                task = next((t for t in coming if not t.future.done()), None)
            if task is not None:
                task.future.add_done_callback(next_part)
                self._waiting.put(kind, task, admitted=True)

        for _ in range(self._waiting.most_taking_long):
            next_part()
        return answer

    def _work(self) -> None:
        while batch := self._waiting.take():
            key, tasks = batch
            # From here on they cannot be canceled.
            tasks = [t for t in tasks if t.future.set_running_or_notify_cancel()]
            if tasks:
                self._runner.run(key, tasks)
            self._waiting.ran(key)
