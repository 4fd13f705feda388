"""A version that answers: a SavedModel, warm, with those who wait for it."""

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
from transbeam.serving.server.models.batching.batch_queue import Told, tell_nobody
from transbeam.serving.server.models.batching.batch_runner import Timing
from transbeam.serving.server.models.batching.batcher import Batcher
from transbeam.serving.server.models.batching.parameters import BatchingParameters
from transbeam.serving.server.models.readiness import Observe, check_answers, warm_up
from transbeam.serving.server.streaming.continuous_batch import (
    ContinuousBatch,
    GeneratedTokens,
    TextStream,
)


class Loaded:
    """A version in memory, and the requests it is working on.

    Args:
        folder: The version folder.
        batching: How requests are put together.
        seconds: That what nobody waits for may take: getting warm, a token of a
            stream.
        observe: Is told of each batch.
        observe_warm_up: Is told of getting warm.
        observe_written: Is told of each token of streams.

    Attributes:
        questions: That it came with, to be asked before anybody else.
        grown: Bytes that the process grew by while it was loaded and got warm, those
            of other versions that were loaded meanwhile included; None if not known.

    Raises:
        Failure: It cannot be loaded, or fails one of its warm-up requests.
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
        self._seconds = seconds
        self._observe_written = observe_written
        try:
            known = self.signatures
            warm_up(folder, known, self._run, self.run_tensors, observe_warm_up)
            self.questions = check_answers(folder, known, self._run)
        except BaseException:
            self._servable.close()
            raise
        self.grown = _grown_since(before)
        self._batching = batching
        self._batcher = Batcher(self._run_kind, batching, observe)
        self._streams: ContinuousBatch | None = None
        self._users = 0
        self._changed = threading.Condition()

    @property
    def signatures(self) -> dict[str, ServableSignature]:
        """By name."""
        return self._servable.signatures

    def submit(
        self,
        signature: ServableSignature,
        inputs: Arrays,
        outputs: Sequence[str],
        deadline: Deadline,
        told: Told = tell_nobody,
    ) -> Answer:
        """Asks a signature; see `Batcher.submit`.

        Args:
            signature: One of `signatures`.
            inputs: All it takes, by its names.
            outputs: Which of its outputs to compute.
            deadline: Until when the answer is wanted.
            told: Is told of each batch that has some of it.
        """
        kind = (signature.name, *outputs)
        if signature.takes_in_rows(inputs):
            return self._batcher.submit(kind, inputs, deadline, told)
        return self._batcher.submit_alone(kind, inputs, deadline, told)

    def write(self, stream: TextStream) -> None:
        """Begins to write a text; see `ContinuousBatch.submit`."""
        with self._changed:
            if self._streams is None:
                most = self._batching.max_batch_size, self._batching.most_rows
                self._streams = ContinuousBatch(self._run, *most, self._observe_written)
        self._streams.submit(stream)

    def run_tensors(
        self,
        fed: tuple[str, ...],
        values: Sequence[np.ndarray],
        fetched: Sequence[str],
        deadline: Deadline | None = None,
    ) -> list[np.ndarray]:
        """Runs the graph itself; see `Servable.run_tensors`."""
        seconds = self._seconds if deadline is None else deadline.left()
        return self._servable.run_tensors(fed, values, tuple(fetched), seconds)

    @contextmanager
    def used(self) -> Iterator["Loaded"]:
        """Keeps it in memory for as long as the context lasts."""
        with self._changed:
            self._users += 1
        try:
            yield self
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def close(self, patience: float = 60.0) -> None:
        """Waits until nobody uses it anymore, and gives its memory back.

        Args:
            patience: Seconds; who then still waits for an answer gets an error.
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
        signature = self.signatures[name]
        return self._servable.run(
            signature, inputs, outputs, seconds, takes_long=takes_long
        )

    def _run(self, name: str, inputs: Arrays) -> dict[str, np.ndarray]:
        outputs = sorted(self.signatures[name].definition.outputs)
        return self._run_kind((name, *outputs), inputs, self._seconds)


def _grown_since(before: int | None) -> int | None:
    now = resident_bytes()
    return None if before is None or now is None else max(0, now - before)
