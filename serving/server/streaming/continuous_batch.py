"""Continuous batching of streaming text generation.

All texts advance by one token per step. New requests join at the next step, and
finished requests leave, so no request waits until another one has ended. Between two
steps the model's state is kept as arrays, which are copied only when rows are added or
removed; see `transbeam.serving.signatures.generation.streaming_signatures`.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from grpc import StatusCode

from transbeam.serving.base.stream_events import FinalEvent, StreamPart
from transbeam.serving.server.base.batched_arrays import Arrays
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.streaming.stop_buffer import StopBuffer
from transbeam.serving.server.streaming.stream_requests import (
    BEGIN,
    JOIN,
    KEEP,
    STEP,
    StreamRequest,
)

_STATE, _OTHER = "state_", "other_"

_log = logging.getLogger("transbeam.serve")

Run = Callable[[str, Arrays], dict[str, np.ndarray]]


@dataclass(frozen=True)
class GeneratedTokens:
    """A generation step, which adds one token to each active text; for the metrics.

    Attributes:
        tokens: Number of tokens generated in the step, one per active text.
        ran: Duration in seconds.
        waited: Seconds that each new text waited for its first token; empty if no text
            is new.
    """

    tokens: int
    ran: float
    waited: Sequence[float] = ()


@dataclass(eq=False)
class TextStream:
    """A text that is being generated or is queued.

    Attributes:
        request: The request.
        deliver: Called from another thread with each generated part of the text, then
            with the `FinalEvent` or a `StatusError`.
    """

    request: StreamRequest
    deliver: Callable[[StreamPart | FinalEvent | StatusError], None]
    buffer: StopBuffer = field(init=False)
    since: float = field(default_factory=time.monotonic)
    is_over: bool = False
    truncated: bool = False

    def __post_init__(self) -> None:
        self.buffer = StopBuffer(self.request.stops)

    def cancel(self) -> None:
        """Ends the stream; `deliver` is not called again."""
        self.is_over = True

    def deliver_row(self, outputs: Arrays, row: int) -> None:
        """Delivers the text's new part, and a `FinalEvent` if the text is complete."""
        ended, count = bool(outputs["ended"][row]), int(outputs["num_tokens"][row])
        new = self.buffer.feed(outputs["generated_text"][row], ended=ended)
        if count:  # 0 if max_new_tokens is 0
            self._deliver(StreamPart(new, int(outputs["token_id"][row])))
        if ended or self.buffer.is_stopped:
            finished = bool(outputs["finished"][row]) or self.buffer.is_stopped
            self._deliver(FinalEvent(self.buffer.text, count, finished, self.truncated))
            self.is_over = True

    def fail(self, failure: StatusError) -> None:
        """Delivers an error and ends the stream."""
        self._deliver(failure)
        self.is_over = True

    def _deliver(self, item: StreamPart | FinalEvent | StatusError) -> None:
        """Calls `deliver`; an exception in `deliver` ends only this stream."""
        if self.is_over:
            return
        try:
            self.deliver(item)
        except Exception:
            _log.exception("stream")
            self.is_over = True


class ContinuousBatch:
    """A thread that generates all queued texts.

    Args:
        run: Runs a signature; takes its name and its inputs.
        most_rows: Maximum number of texts generated at once.
        most_waiting: Maximum number of queued texts.
        observe: Called after each step.
    """

    def __init__(
        self,
        run: Run,
        most_rows: int,
        most_waiting: int,
        observe: Callable[[GeneratedTokens], None] = lambda written: None,
    ):
        self._run = run
        self._observe = observe
        self._most_rows = most_rows
        self._most_waiting = most_waiting
        self._changed = threading.Condition()
        self._waiting: deque[TextStream] = deque()
        self._closed = False
        # Used by the thread only: the streams, and the state with a row for each.
        self._rows: list[TextStream] = []
        self._state: dict[str, np.ndarray] = {}
        self._thread = threading.Thread(target=self._work, name="stream", daemon=True)
        self._thread.start()

    def submit(self, stream: TextStream) -> None:
        """Queues a stream to join at the next step.

        Raises:
            StatusError: The queue is full or closed.
        """
        with self._changed:
            if self._closed:
                raise StatusError(StatusCode.UNAVAILABLE, "The server is shutting down")
            if len(self._waiting) >= self._most_waiting:
                self._waiting = deque(s for s in self._waiting if not s.is_over)
            if len(self._waiting) >= self._most_waiting:
                raise StatusError(
                    StatusCode.RESOURCE_EXHAUSTED,
                    f"{len(self._waiting)} texts wait to be written; expected at most "
                    f"{self._most_waiting}. Try again later",
                )
            self._waiting.append(stream)
            self._changed.notify()

    def close(self) -> None:
        """Stops the thread; all streams in progress get an error."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while (coming := self._coming()) is not None:
            if coming:
                self._try(lambda streams=coming: self._begin(streams), coming)
            self._try(self._go_on)
        closed = StatusError(StatusCode.UNAVAILABLE, "The version is being unloaded")
        for stream in [*self._rows, *self._waiting]:
            stream.fail(closed)

    def _coming(self) -> list[TextStream] | None:
        """Returns queued streams that can join the batch; None once closed."""
        with self._changed:
            while not (self._rows or self._waiting or self._closed):
                self._changed.wait()
            if self._closed:
                return None
            found: list[TextStream] = []
            while self._waiting and len(self._rows) + len(found) < self._most_rows:
                if not (stream := self._waiting.popleft()).is_over:
                    found.append(stream)
            return found

    def _try(self, work: Callable[[], None], coming: Sequence[TextStream] = ()) -> None:
        """Calls a function; if it fails, all affected streams get the error."""
        try:
            work()
        except Exception as error:
            failure = _failure(error)
            for stream in [*self._rows, *coming]:
                stream.fail(failure)
            self._rows, self._state = [], {}

    def _go_on(self) -> None:
        """Generates the next token of each text."""
        self._leave()
        if not self._rows:
            return
        began = time.monotonic()
        outputs = self._run(STEP, self._state)
        self._observe(GeneratedTokens(len(self._rows), time.monotonic() - began))
        self._state = row_state(outputs)
        for row, stream in enumerate(self._rows):
            if not stream.is_over:
                stream.deliver_row(outputs, row)
        self._leave()

    def _begin(self, coming: Sequence[TextStream]) -> None:
        """Runs the prompts of new streams and adds the streams to the batch."""
        inputs = {
            name: np.concatenate([stream.request.inputs[name] for stream in coming])
            for name in coming[0].request.inputs
        }
        began = time.monotonic()
        try:
            outputs = self._run(BEGIN, inputs)
        except Exception as error:
            if len(coming) == 1:
                coming[0].fail(_failure(error))
            else:  # run them one by one: only the invalid requests are to fail
                for stream in coming:
                    self._begin([stream])
            return
        state = row_state(outputs)
        if self._rows:
            others = {_OTHER + name: values for name, values in state.items()}
            state = self._run(JOIN, {**self._state, **others})
        self._rows += coming
        self._state = state
        now = time.monotonic()
        self._observe(
            GeneratedTokens(
                len(coming), now - began, [now - stream.since for stream in coming]
            )
        )
        for row, stream in enumerate(coming):
            stream.truncated = bool(outputs["truncated"][row])
            stream.deliver_row(outputs, row)
        self._leave()

    def _leave(self) -> None:
        """Removes the rows of finished streams from the state."""
        left = [row for row, stream in enumerate(self._rows) if not stream.is_over]
        if len(left) == len(self._rows):
            return
        self._rows = [self._rows[row] for row in left]
        if left:
            self._state = self._run(
                KEEP, {**self._state, "rows": np.array(left, np.int32)}
            )
        else:
            self._state = {}


def row_state(outputs: Arrays) -> dict[str, np.ndarray]:
    """Returns the outputs that are the model's state, an input of the next step."""
    return {name: value for name, value in outputs.items() if name.startswith(_STATE)}


def run_once(run: Run, outputs: Arrays) -> None:
    """Runs each streaming signature once, as a warm-up.

    Args:
        run: Runs a signature.
        outputs: Outputs of `stream_begin`.
    """
    state = row_state(run(STEP, row_state(outputs)))
    others = {_OTHER + name: values for name, values in state.items()}
    both = run(JOIN, {**state, **others})
    run(KEEP, {**both, "rows": np.zeros(1, np.int32)})


def _failure(error: Exception) -> StatusError:
    if isinstance(error, StatusError):
        return error
    return StatusError(StatusCode.INTERNAL, f"{type(error).__name__}: {error}")
