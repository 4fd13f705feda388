"""A loaded and warmed-up model version, with the requests in progress."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from transbeam.configs.system.memory import resident_bytes
from transbeam.serving.server.base.batched_arrays import Answer, Arrays
from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.inference.servable import Servable
from transbeam.serving.server.inference.signature import ServableSignature
from transbeam.serving.server.models.batching.batch_queue import (
    BatchingParameters,
    ObserveTimes,
    ignore_times,
)
from transbeam.serving.server.models.batching.batch_runner import Timing
from transbeam.serving.server.models.batching.batcher import Batcher
from transbeam.serving.server.models.readiness import Observe, check_answers, warm_up
from transbeam.serving.server.streaming.continuous_batch import (
    ContinuousBatch,
    GeneratedTokens,
    TextStream,
)


class Loaded:
    """A model version in memory, and its requests in progress.

    Args:
        folder: The version folder.
        batching: Batching parameters.
        seconds: Timeout of runs without a client's deadline: warm-up requests and
            steps of streaming generation.
        observe: Called with the timing of each batch.
        observe_warm_up: Called with the outcome and duration of the warm-up.
        observe_written: Called after each step of streaming generation.

    Attributes:
        folder: The version folder.
        created: Unix time in seconds at which the version was written.
        signatures: Signatures by name.
        questions: Golden requests of the version, which were run before it became
            available.
        grown: Bytes of resident memory by which the process grew during loading and
            warm-up, including versions loaded at the same time; None if unknown.

    Raises:
        StatusError: The version cannot be loaded, or fails a warm-up request or golden
            request.
    """

    def __init__(
        self,
        folder: Path,
        batching: BatchingParameters,
        seconds: float,
        observe: Callable[[Timing], None],
        observe_warm_up: Observe = lambda status, seconds: None,
        observe_written: Callable[[GeneratedTokens], None] = lambda written: None,
    ):
        before = resident_bytes()
        self._servable = Servable(folder)
        self.folder = folder
        self.created = int(folder.stat().st_mtime)
        self.signatures = self._servable.signatures
        self._seconds = seconds
        self._observe_written = observe_written
        try:
            warm_up(
                folder, self.signatures, self._run, self.run_tensors, observe_warm_up
            )
            self.questions = check_answers(folder, self.signatures, self._run)
        except BaseException:
            self._servable.close()
            raise
        after = resident_bytes()
        self.grown = None
        if before is not None and after is not None:
            self.grown = max(0, after - before)
        self._batching = batching
        self._batcher = Batcher(self._run_kind, batching, observe)
        self._streams: ContinuousBatch | None = None
        self._users = 0
        self._changed = threading.Condition()

    def submit(
        self,
        signature: ServableSignature,
        inputs: Arrays,
        outputs: Sequence[str],
        deadline: Deadline,
        observe_times: ObserveTimes = ignore_times,
    ) -> Answer:
        """Queues a request for a signature; see `Batcher.submit`.

        Args:
            signature: One of `signatures`.
            inputs: All inputs of the signature, by name.
            outputs: Names of the outputs to compute.
            deadline: Deadline of the request.
            observe_times: Called with the times of each batch that contains some of
                the rows.
        """
        kind = (signature.name, *outputs)
        if signature.takes_in_rows(inputs):
            return self._batcher.submit(kind, inputs, deadline, observe_times)
        return self._batcher.submit_alone(kind, inputs, deadline, observe_times)

    def write(self, stream: TextStream) -> None:
        """Starts streaming generation of a text; see `ContinuousBatch.submit`."""
        with self._changed:
            if self._streams is None:
                self._streams = ContinuousBatch(
                    self._run,
                    self._batching.max_batch_size,
                    self._batching.most_rows,
                    self._observe_written,
                )
        self._streams.submit(stream)

    def run_tensors(
        self,
        fed: tuple[str, ...],
        values: Sequence[np.ndarray],
        fetched: Sequence[str],
        deadline: Deadline | None = None,
    ) -> list[np.ndarray]:
        """Runs the graph with given feeds and fetches; see `Servable.run_tensors`."""
        seconds = self._seconds if deadline is None else deadline.left()
        return self._servable.run_tensors(fed, values, tuple(fetched), seconds)

    @contextmanager
    def used(self) -> Iterator["Loaded"]:
        """Keeps the version in memory until the context exits."""
        with self._changed:
            self._users += 1
        try:
            yield self
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def close(self, patience: float = 60.0) -> None:
        """Waits until the version is unused, then frees its memory.

        Args:
            patience: Maximum wait in seconds; requests still in progress then fail.
        """
        end = time.monotonic() + patience
        with self._changed:
            while self._users and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
        self._batcher.close()
        if self._streams is not None:
            self._streams.close()
        self._servable.close()

    def _run_kind(
        self,
        kind: tuple[str, ...],
        inputs: Arrays,
        seconds: float,
        takes_long: bool = False,
    ) -> dict[str, np.ndarray]:
        name, *outputs = kind
        return self._servable.run(
            self.signatures[name], inputs, outputs, seconds, takes_long=takes_long
        )

    def _run(self, name: str, inputs: Arrays) -> dict[str, np.ndarray]:
        outputs = sorted(self.signatures[name].definition.outputs)
        return self._run_kind((name, *outputs), inputs, self._seconds)
