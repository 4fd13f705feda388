"""Rendezvous of the workers of a training, before their backend connects them.

TensorFlow and JAX wait in C++ for workers that do not come: in silence, and deaf to
signals. Here all workers connect to the chief over plain sockets first. Each says who
is missing, and they compare what they were started with before anything is written. A
port that the backend will listen at is taken until then.
"""

import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from transbeam.configs.base.errors import ArtifactError, UserError
from transbeam.configs.system.daemon_threads import begin_aside
from transbeam.trainer.distribution.connection import listen
from transbeam.trainer.distribution.process_info import ProcessInfo

T = TypeVar("T")

SECONDS = 600  # to wait for others, unless the user says otherwise
_SECONDS_TO_START = 240  # JAX aborts the process after 300
_SAID_AFTER, _SAID_AGAIN = 1.5, 15.0
_SAID_LATER = 10.0  # once all were here: some read their libraries more slowly
_TICK = 0.2
_MOST_NAMED = 8


class LostWorkerError(UserError):
    """Another worker does not come or is gone; without its rows there is no batch."""


class Rendezvous:
    """Rendezvous of one worker with nobody; `SeveralRendezvous` is that of several.

    Attributes:
        place: Which worker this is.

    Example:
    >>> Rendezvous(ProcessInfo()).exchange("a fact")
    ['a fact']
    """

    def __init__(self, place: ProcessInfo):
        self.place = place

    def exchange(self, facts: Any) -> list[Any]:
        """Waits for a value of each worker, which JSON can hold; all, in their order.

        The first time, it waits for the workers to come.

        Raises:
            LostWorkerError: A worker does not come, or is gone.
        """
        return [facts]

    def assert_equal(self, facts: Mapping[str, Any]) -> None:
        """Waits for all workers, and refuses what differs between them.

        Args:
            facts: Name → value, which JSON can hold.

        Raises:
            ArtifactError: At each worker; it names the facts and who has which value.
            LostWorkerError: A worker does not come, or is gone.
        """
        if lines := differences(self.exchange(facts)):
            listed = "\n".join(f"  {line}" for line in lines)
            raise ArtifactError(
                f"the workers differ:\n{listed}\nStart all of them with the same "
                "configuration, version and records, on one run folder that all see"
            )

    def run(self, start: Callable[[], T]) -> T:
        """Runs what waits for the other workers in a way of its own."""
        return start()

    def close(self, error: BaseException | None = None) -> None:
        """Ends it; the others are told why, if there is an error."""


def differences(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines on what is not the same everywhere.

    Args:
        facts: Of each worker, by their names.

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
    told = []
    for value, numbers in holders.items():
        more = f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
        told.append(f"{value[:80]} at worker {numbers[0]}{more}")
    return ", ".join(told)


def _keep_sigterm() -> None:
    """Takes SIGTERM back from TensorFlow, whose start has a handler of its own."""
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGTERM, handler)


class SeveralRendezvous(Rendezvous):
    """Rendezvous of several workers: what the chief and the members of it share.

    Threads of its own read from the sockets and post what came; only the thread that
    waits acts on it.

    Args:
        place: Which worker this is, and the addresses.
        say: Tells the user who is waited for.
        seconds: How long others are waited for.

    Raises:
        ConfigError: The port that the backend will listen at is taken.
    """

    def __init__(
        self, place: ProcessInfo, say: Callable[[str], None], seconds: float = SECONDS
    ):
        super().__init__(place)
        self.listener = listen(place.listens_at) if place.listens_at else None
        self.all_are_met = False
        self.has_ended = False
        self._say = say
        self._seconds = seconds
        self._posted: queue.Queue[Callable[[], None]] = queue.Queue()

    def missing(self) -> Mapping[int, str]:
        """The workers that are waited for, and why they are missing where known."""
        raise NotImplementedError

    def tick(self) -> None:
        """Called now and then while this worker waits."""

    def broadcast(self, message: Mapping[str, Any]) -> None:
        """Sends a message to all that are connected to this worker."""
        raise NotImplementedError

    def leave_port(self) -> None:
        """Stops listening, so that the backend can."""
        if self.listener is not None:
            self.listener.close()

    def post(self, action: Callable[..., None], *arguments: Any) -> None:
        """Hands something over, from any thread, to the one that waits."""
        self._posted.put(lambda: action(*arguments))

    def say(self, text: str) -> None:
        """Tells the user."""
        self._say(text)

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Acts on what is posted until something is so.

        Raises:
            LostWorkerError: It takes too long.
        """

        def gave_up() -> str:
            return (
                f"worker {self.place.number}: waited {self._seconds:g} s for "
                f"{self._named()}. Start all workers, with the same addresses; "
                "--worker-timeout lets them wait longer"
            )

        self._wait(is_done, self._seconds, gave_up)

    def run(self, start: Callable[[], T]) -> T:
        """Runs what connects the backends, as long as the other workers are here.

        It has a thread of its own, so that signals are heard meanwhile, and the port.

        Raises:
            LostWorkerError: A worker is gone, or it takes too long.
        """
        self.leave_port()
        started = begin_aside(start, "start of the backend")

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
            self.broadcast({"ended": self._told(error)})
        self.has_ended = True
        self.leave_port()

    def _wait(
        self, is_done: Callable[[], bool], seconds: float, gave_up: Callable[[], str]
    ) -> None:
        began = time.monotonic()
        say_at = began + (_SAID_LATER if self.all_are_met else _SAID_AFTER)
        while not is_done():
            now = time.monotonic()
            if now > began + seconds:
                raise LostWorkerError(gave_up())
            if now > say_at and (named := self._named()):
                say_at = now + _SAID_AGAIN
                self.say(f"waiting for {named}, for {seconds:g} s at most")
            self.tick()
            try:
                action = self._posted.get(timeout=_TICK)
            except queue.Empty:
                continue
            action()

    def _named(self) -> str:
        """Names those who are missing, with their addresses and why."""
        missing = sorted(self.missing().items())
        named = []
        for number, why in missing[:_MOST_NAMED]:
            # On JAX only the chief has an address, at which the others meet.
            address = self.place.addresses[number] or self.place.addresses[0]
            named.append(f"worker {number} at {address}" + (f" ({why})" if why else ""))
        if len(missing) > _MOST_NAMED:
            named.append(f"{len(missing) - _MOST_NAMED} more")
        return ", ".join(named)

    def _told(self, error: BaseException) -> str:
        """What the others say of the end of this worker."""
        if isinstance(error, LostWorkerError):
            return str(error)
        why = str(error)
        if isinstance(error, KeyboardInterrupt):
            why = "it was stopped"
        elif not isinstance(error, UserError):
            why = f"{type(error).__name__}: {error}"
        return f"worker {self.place.number} has ended: {why}"
