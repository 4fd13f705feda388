"""Texts that come at the moments a test chooses, and what their listeners are told."""

import threading
from contextlib import contextmanager

from transbeam.serving.base.stream_events import StreamPart
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.streaming.continuous_batch import (
    ContinuousBatch,
    TextStream,
)
from transbeam.serving.server.streaming.stream_requests import STEP

PATIENCE = 60


class Gate:
    """A gate for the calls of a model, at which steps may have to wait.

    Attributes:
        calls: The signatures that were run, and of what rows.
    """

    def __init__(self):
        self.calls = []
        self._steps = 0
        self._let = None
        self._changed = threading.Condition()

    def __call__(self, name, rows):
        with self._changed:
            self.calls.append((name, rows))
            self._steps += name == STEP
            number = self._steps
            self._changed.notify_all()
            if name == STEP:
                self._wait_for(lambda: self._let is None or number <= self._let)

    @property
    def steps(self):
        """The rows of each step."""
        return [rows for name, rows in self.calls if name == STEP]

    def close(self):
        """Lets no step through but those that have begun."""
        with self._changed:
            self._let = self._steps

    def open(self):
        with self._changed:
            self._let = None
            self._changed.notify_all()

    def let_until(self, fits):
        """Lets steps through until one of such rows waits."""
        with self._changed:
            assert self._let is not None
            while not (self._let < self._steps and fits(self.steps[-1])):
                self._let = self._steps
                self._changed.notify_all()
                self._wait_for(lambda: self._let < self._steps)

    def wait(self):
        """Until a step waits."""
        self.let_until(lambda rows: True)

    def let(self):
        """Lets the step that waits through."""
        self.wait()
        with self._changed:
            self._let = self._steps
            self._changed.notify_all()

    def _wait_for(self, condition):
        assert self._changed.wait_for(condition, PATIENCE), "waited in vain"


class Told:
    """Listens to a text.

    Attributes:
        items: What was delivered.
    """

    def __init__(self, request):
        self.items = []
        self.stream = TextStream(request, self)
        self._changed = threading.Condition()

    def __call__(self, item):
        with self._changed:
            self.items.append(item)
            self._changed.notify_all()

    @property
    def parts(self):
        return [item for item in self.items if isinstance(item, StreamPart)]

    @property
    def text(self):
        return "".join(part.text for part in self.parts)

    @property
    def is_over(self):
        return bool(self.items) and not isinstance(self.items[-1], StreamPart)

    def end(self):
        """The whole or the failure, which is the last that is told."""
        self._wait_for(lambda: self.is_over)
        assert len(self.parts) == len(self.items) - 1
        return self.items[-1]

    def failure(self):
        end = self.end()
        assert isinstance(end, StatusError)
        return end

    def wait_for_parts(self, number):
        self._wait_for(lambda: len(self.parts) >= number)

    def cancel(self):
        self.stream.cancel()
        with self._changed:
            self._changed.notify_all()

    def wait(self):
        """Until it is over or nobody listens."""
        self._wait_for(lambda: self.is_over or self.stream.is_over)

    def _wait_for(self, condition):
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), "waited in vain"


@contextmanager
def writing(run, most_rows=4, most_waiting=100, observe=lambda written: None):
    """A batch, whose thread is gone in the end."""
    batch = ContinuousBatch(run, most_rows, most_waiting, observe)
    try:
        yield batch
    finally:
        batch.close()
        assert not batch._thread.is_alive()


def written(run, comings, most_rows=4, leavings=()):
    """Events of texts that are added and removed during generation.

    Args:
        run: The model.
        comings: Pairs of a moment and a request. A moment is a number of calls of the
            model, or earlier when nobody is left who came before.
        most_rows: Texts at once.
        leavings: Pairs of a moment and a number of a text, which nobody wants anymore.
    """
    told = [Told(request) for _, request in comings]
    order = sorted(range(len(told)), key=lambda number: comings[number][0])
    waiting = list(order)
    calls = 0
    lock = threading.Lock()

    def come(due):
        with lock:
            while waiting and due(waiting[0]):
                batch.submit(told[waiting.pop(0)].stream)

    def counted(name, inputs):
        nonlocal calls
        calls += 1
        come(lambda number: comings[number][0] <= calls)
        for moment, number in leavings:
            if moment == calls:
                told[number].cancel()
        return run(name, inputs)

    with writing(counted, most_rows, len(told)) as batch:
        come(lambda number: comings[number][0] == 0)
        for number in order:
            come(lambda other, first=number: other == first)
            told[number].wait()
    return told
