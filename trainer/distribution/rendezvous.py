"""Rendezvous of the workers of a training, before their backend connects them.

TensorFlow and JAX wait in C++ for missing workers: without a message, and without
handling signals. So all workers first connect to the chief over plain sockets. Each
worker reports the missing workers, and the configurations of all workers are compared
before any file is written. The port on which the backend will listen is reserved until
the backend starts.
"""

import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from transbeam.configs.base.errors import ArtifactError, UserError
from transbeam.configs.system.daemon_threads import run_in_background
from transbeam.trainer.distribution.connection import listen
from transbeam.trainer.distribution.process_info import ProcessInfo

T = TypeVar("T")

SECONDS = 600  # to wait for others, by default
_SECONDS_TO_START = 240  # JAX aborts the process after 300
_NOTICE_AFTER, _NOTICE_AGAIN = 1.5, 15.0
_NOTICE_LATER = 10.0  # once all have connected: some import their libraries slowly
_TICK = 0.2
_MOST_NAMED = 8


class LostWorkerError(UserError):
    """Another worker is missing or gone, so its rows of each batch are missing."""


class Rendezvous:
    """The trivial rendezvous of a single worker; for several see `SeveralRendezvous`.

    Attributes:
        place: This worker's rank and the number of workers.

    Example:
    >>> Rendezvous(ProcessInfo()).exchange("a fact")
    ['a fact']
    """

    def __init__(self, place: ProcessInfo):
        self.place = place

    def exchange(self, facts: Any) -> list[Any]:
        """Gathers a JSON value from each worker; returns all, in the workers' order.

        The first call also waits for the workers to connect.

        Raises:
            LostWorkerError: A worker does not connect, or is gone.
        """
        return [facts]

    def assert_equal(self, facts: Mapping[str, Any]) -> None:
        """Waits for all workers, and raises an error if their values differ.

        Args:
            facts: JSON values by name.

        Raises:
            ArtifactError: The values differ; raised on every worker, with the names of
                the differing values and each worker's value.
            LostWorkerError: A worker does not connect, or is gone.
        """
        if lines := differences(self.exchange(facts)):
            listed = "\n".join(f"  {line}" for line in lines)
            raise ArtifactError(
                f"the workers differ:\n{listed}\nStart all of them with the same "
                "configuration, version and records, on one run folder that all see"
            )

    def run(self, start: Callable[[], T]) -> T:
        """Runs the backend's start, which itself waits for the other workers."""
        return start()

    def close(self, error: BaseException | None = None) -> None:
        """Ends the rendezvous; sends the error, if any, to the other workers."""


def differences(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describes the named values that differ between workers, one per line.

    Args:
        facts: The values of each worker, by name.

    Example:
    >>> differences([{"seed": 1, "steps": 9}, {"seed": 1, "steps": 8}, {"seed": 1}])
    ['steps: 9 at worker 0, 8 at worker 1, nothing at worker 2']
    """
    lines = []
    for name in dict.fromkeys(name for one in facts for name in one):
        holders: dict[str, list[str]] = {}
        for number, one in enumerate(facts):
            value = one.get(name, "nothing")
            value = "nothing" if value is None else value
            holders.setdefault(str(value), []).append(str(number))
        if len(holders) > 1:
            lines.append(f"{name}: {_listed(holders)}")
    return lines


def _listed(holders: Mapping[str, Sequence[str]]) -> str:
    parts = []
    for value, numbers in holders.items():
        more = f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
        parts.append(f"{value[:80]} at worker {numbers[0]}{more}")
    return ", ".join(parts)


def _keep_sigterm() -> None:
    """Restores Python's SIGTERM handler, which TensorFlow's start replaces."""
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGTERM, handler)


class SeveralRendezvous(Rendezvous):
    """Rendezvous of several workers: base class for the chief and the members.

    Background threads read from the sockets and post actions to a queue; only the
    waiting thread runs them.

    Args:
        place: This worker's rank, and the addresses of all workers.
        say: Prints to the user which workers are missing.
        seconds: Seconds to wait for the other workers.

    Raises:
        ConfigError: The port on which the backend will listen is taken.
    """

    def __init__(
        self, place: ProcessInfo, say: Callable[[str], None], seconds: float = SECONDS
    ):
        super().__init__(place)
        self.listener = listen(place.listens_at) if place.listens_at else None
        self.all_are_met = False
        self.has_ended = False
        self.say = say
        self._seconds = seconds
        self._posted: queue.Queue[Callable[[], object]] = queue.Queue()

    def missing(self) -> Mapping[int, str]:
        """The missing workers, by number, with the reason where it is known."""
        raise NotImplementedError

    def tick(self) -> None:
        """A hook that is called repeatedly while this worker waits."""

    def broadcast(self, message: Mapping[str, Any]) -> None:
        """Sends a message to all workers that are connected to this one."""
        raise NotImplementedError

    def leave_port(self) -> None:
        """Stops listening on the port, so that the backend can use it."""
        if self.listener is not None:
            self.listener.close()

    def post(self, action: Callable[..., object], *arguments: Any) -> None:
        """Queues an action, from any thread, for the waiting thread to run."""
        self._posted.put(lambda: action(*arguments))

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Runs posted actions until a condition is true.

        Raises:
            LostWorkerError: The time limit is exceeded.
        """

        def gave_up() -> str:
            return (
                f"worker {self.place.number}: waited {self._seconds:g} s for "
                f"{self._named()}. Start all workers, with the same addresses; "
                "--worker-timeout lets them wait longer"
            )

        self._wait(is_done, self._seconds, gave_up)

    def run(self, start: Callable[[], T]) -> T:
        """Runs the start of the backend, while the other workers stay connected.

        The start runs in a separate thread, so that signals are handled meanwhile. The
        reserved port is released for the backend.

        Raises:
            LostWorkerError: A worker is gone, or the time limit is exceeded.
        """
        self.leave_port()
        started = run_in_background(start, "start of the backend")

        def gave_up() -> str:
            return (
                f"worker {self.place.number}: all workers are here, but their backends "
                f"have not found each other within {_SECONDS_TO_START} s. Each must "
                "reach the ports of all others"
            )

        def has_started() -> bool:
            _keep_sigterm()
            return started.done()

        self._wait(has_started, _SECONDS_TO_START, gave_up)
        found = started.result()
        self.exchange(None)  # until all have started
        return found

    def close(self, error: BaseException | None = None) -> None:
        if error is not None:
            self.broadcast({"ended": self._message_of(error)})
        self.has_ended = True
        self.leave_port()

    def _wait(
        self, is_done: Callable[[], bool], seconds: float, gave_up: Callable[[], str]
    ) -> None:
        began = time.monotonic()
        say_at = began + (_NOTICE_LATER if self.all_are_met else _NOTICE_AFTER)
        while not is_done():
            now = time.monotonic()
            if now > began + seconds:
                raise LostWorkerError(gave_up())
            if now > say_at and (named := self._named()):
                say_at = now + _NOTICE_AGAIN
                self.say(f"waiting for {named}, for {seconds:g} s at most")
            self.tick()
            try:
                action = self._posted.get(timeout=_TICK)
            except queue.Empty:
                continue
            action()

    def _named(self) -> str:
        """Lists the missing workers, with their addresses and the reasons."""
        missing = sorted(self.missing().items())
        named = []
        for number, why in missing[:_MOST_NAMED]:
            # On JAX only the chief has an address, to which the others connect.
            address = self.place.addresses[number] or self.place.addresses[0]
            named.append(f"worker {number} at {address}" + (f" ({why})" if why else ""))
        if len(missing) > _MOST_NAMED:
            named.append(f"{len(missing) - _MOST_NAMED} more")
        return ", ".join(named)

    def _message_of(self, error: BaseException) -> str:
        """The message that other workers show when this worker ends with an error."""
        if isinstance(error, LostWorkerError):
            return str(error)
        why = str(error)
        if isinstance(error, KeyboardInterrupt):
            why = "it was stopped"
        elif not isinstance(error, UserError):
            why = f"{type(error).__name__}: {error}"
        return f"worker {self.place.number} has ended: {why}"
