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
from collections.abc import Callable

import numpy as np

from transbeam.serving.server.base.batched_arrays import (
    Answer,
    Arrays,
    joined,
    row_lengths,
)
from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.models.batching.batch_queue import (
    BatchTask,
    Told,
    Waiting,
    tell_nobody,
)
from transbeam.serving.server.models.batching.batch_runner import Run, Runner, Timing
from transbeam.serving.server.models.batching.parameters import BatchingParameters


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
        self._parameters = parameters
        self._waiting = Waiting(parameters)
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
        task = BatchTask(inputs, rows, deadline, told)
        self._waiting.put(kind, task)
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
        self._waiting.close()
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
        task = BatchTask(inputs, rows=1, deadline=deadline, told=told, alone=True)
        self._waiting.put(kind, task, admitted=admitted)
        return task.future

    def _submit_parts(
        self, kind: tuple[str, ...], inputs: Arrays, deadline: Deadline, told: Told
    ) -> Answer:
        lengths = row_lengths(inputs)
        rows, size = len(lengths), self._parameters.max_batch_size
        self._waiting.admit_parts(rows)
        order = np.argsort(lengths, kind="stable")
        places = [order[start : start + size] for start in range(0, rows, size)]
        tasks = [
            BatchTask(
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
        answer.add_done_callback(lambda _: self._waiting.leave_parts(rows))
        # As many of its parts wait as can be run at once, each behind what has come
        # meanwhile; so it takes no more of the time than others do.
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
            # From here on they cannot be cancelled.
            tasks = [t for t in tasks if t.future.set_running_or_notify_cancel()]
            if tasks:
                self._runner.run(key, tasks)
            self._waiting.ran(key)
