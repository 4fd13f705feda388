"""The versions of one model: which there are, which should be, and which answer.

A model's folder has a numbered folder for each version. New ones are found by looking,
loaded beside those that answer, and take over when they are warm; only then are the old
ones let go, after their last request. A version that cannot be loaded leaves everything
as it was, and its state says why.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from grpc import StatusCode

from transbeam.configs.system.memory import give_back_memory
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.models.loaded_version import Loaded

# As in TF Serving: so many attempts after the first, that long apart.
_RETRIES = 5
_RETRY_SECONDS = 60.0
# Messages hold a version in 64 bits.
_NUMBER = re.compile(r"0*[0-9]{1,19}")
_LARGEST = 2**63 - 1
# Versions that ended, which are remembered for their state.
_REMEMBERED = 16

_log = logging.getLogger("transbeam.serve")


class State(IntEnum):
    """Of a version, with the numbers of `ModelVersionStatus.State`."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclass(frozen=True)
class Policy:
    """Which of the versions that are there should answer.

    Attributes:
        latest: The highest so many.
        specific: Exactly these; counts before `latest`.
    """

    latest: int | None = 1
    specific: frozenset[int] = frozenset()

    def choose(self, numbers: Collection[int]) -> set[int]:
        """Among the versions that are there.

        Example:
        >>> Policy(latest=2).choose({1, 2, 10})
        {2, 10}
        """
        if self.specific:
            return set(numbers) & self.specific
        if self.latest is None:
            return set(numbers)
        return set(sorted(numbers)[-self.latest :])


@dataclass
class Version:
    """One version, as its state tells.

    Attributes:
        number: Of the version.
        state: What is going on.
        failure: Why it ended, if not because it was let go.
        loaded: While it is available.
    """

    number: int
    state: State = State.START
    failure: StatusError | None = None
    loaded: Loaded | None = None
    attempts: int = 0
    tried: float = 0.0
    seen: float = 0.0


class Model:
    """The versions of one model.

    Args:
        name: Of the model.
        folder: Has the numbered folders.
        policy: Which should answer.
        load: Loads a version folder.
    """

    def __init__(
        self, name: str, folder: Path, policy: Policy, load: Callable[[Path], Loaded]
    ):
        self.name = name
        self.folder = folder
        self.policy = policy
        self._load = load
        self._lock = threading.Lock()
        self._polling = threading.Lock()
        self._closed = False
        self._versions: dict[int, Version] = {}
        self._said = ""

    def states(self) -> list[Version]:
        """Every version that is known of, the newest first."""
        with self._lock:
            return sorted(self._versions.values(), key=lambda v: -v.number)

    def failures(self) -> list[str]:
        """Why versions do not answer that were tried."""
        return [
            f"version {version.number}: {version.failure.message}"
            for version in self.states()
            if version.failure
        ]

    def available(self) -> list[int]:
        """The versions that answer."""
        return [v.number for v in self.states() if v.state is State.AVAILABLE]

    @contextmanager
    def use(self, number: int | None = None) -> Iterator[tuple[int, Loaded]]:
        """A version to ask, which stays for as long as the context lasts.

        Args:
            number: Of the version; the latest that answers if left out.

        Raises:
            Failure: There is none.
        """
        with self._lock:
            ready = {
                v.number: v.loaded
                for v in self._versions.values()
                if v.state is State.AVAILABLE and v.loaded is not None
            }
            wanted = max(ready, default=None) if number is None else number
            if wanted is None or wanted not in ready:
                raise not_found(self.name, number)
            # Under the lock: or it could be let go before it is in use.
            context = ready[wanted].used()
            loaded = context.__enter__()
        try:
            yield wanted, loaded
        finally:
            context.__exit__(None, None, None)

    def poll(self) -> None:
        """Looks what is there, and loads and lets go what the policy says.

        Storage may keep it waiting for ever.
        """
        with self._polling:
            if not self._closed:
                self._poll()

    def is_polling(self) -> bool:
        """Whether `poll` is at work, or waits for its storage."""
        return self._polling.locked()

    def _poll(self) -> None:
        there = self._look()
        if not there:
            self._say_nothing_there()
            return
        self._said = ""
        wanted = self.policy.choose(there)
        for number in sorted(wanted):
            self._bring(number, there[number])
        available = set(self.available())
        if not wanted or wanted & available:
            for number in available - wanted:
                self._let_go(number)
        self._forget(there)

    def close(self) -> None:
        """Lets all versions go, after their last request; what still comes, at once."""
        with self._lock:
            self._closed = True
        for number in self.available():
            self._let_go(number, at_once=True)

    def _look(self) -> dict[int, Path]:
        """The version folders that are there: `7` and `007` are both version 7."""
        try:
            folders = sorted(self.folder.iterdir())
        except OSError:
            return {}
        return {
            int(folder.name): folder
            for folder in folders
            if _NUMBER.fullmatch(folder.name)
            and int(folder.name) <= _LARGEST
            and folder.is_dir()
        }

    def _say_nothing_there(self) -> None:
        said = (
            f"{self.name}: no versions in {self.folder}; expected folders with numbers "
            "as names, such as 1. "
        )
        kept = self.available()
        said += f"Version {kept[0]} answers on" if kept else "Nothing can be asked yet"
        if said != self._said:
            _log.warning(said)
            self._said = said

    def _bring(self, number: int, folder: Path) -> None:
        """Loads a version, unless it is there or failed a moment ago."""
        written = _written(folder)  # a disk that hangs must not hang who asks
        with self._lock:
            version = self._versions.setdefault(number, Version(number))
            if version.state is State.AVAILABLE or not _due(version, written):
                return
            version.attempts = 1 if written != version.seen else version.attempts + 1
            version.tried, version.seen = time.monotonic(), written
            version.state = State.LOADING
        began = time.monotonic()
        try:
            loaded, failure = self._load(folder), None
        except StatusError as error:
            loaded, failure = None, error
        except Exception as error:  # a bug of ours must not end the looking
            _log.exception("%s: version %d", self.name, number)
            message = f"{type(error).__name__}: {error}"
            loaded, failure = None, StatusError(StatusCode.INTERNAL, message)
        with self._lock:
            came_late = loaded is not None and self._closed
            version.loaded, version.failure = None if came_late else loaded, failure
            version.state = State.AVAILABLE if version.loaded else State.END
        if loaded is not None and came_late:
            loaded.close()
        elif failure:
            _log.error("%s: version %d: %s", self.name, number, failure.message)
        else:
            seconds = time.monotonic() - began
            _log.info("%s: version %d answers (%.1f s)", self.name, number, seconds)

    def _let_go(self, number: int, *, at_once: bool = False) -> None:
        with self._lock:
            version = self._versions[number]
            loaded, version.loaded = version.loaded, None
            version.state = State.UNLOADING

        def close() -> None:
            if loaded is not None:
                loaded.close()
                if not at_once:  # a process that ends needs not tidy up
                    give_back_memory()
            with self._lock:
                version.state = State.END
                version.attempts = 0
            _log.info("%s: version %d is let go", self.name, number)

        if at_once:
            close()
        else:  # the next look must not wait for a slow request
            threading.Thread(target=close, name=f"unload-{number}").start()

    def _forget(self, there: Collection[int]) -> None:
        with self._lock:
            ended = [
                number
                for number, version in sorted(self._versions.items())
                if version.state is State.END and number not in there
            ]
            for number in ended[: max(0, len(ended) - _REMEMBERED)]:
                del self._versions[number]


def not_found(name: str, number: int | None) -> StatusError:
    """No such model or version answers."""
    asked = f"Latest({name})" if number is None else f"Specific({name}, {number})"
    return StatusError(StatusCode.NOT_FOUND, f"Servable not found for request: {asked}")


def _written(folder: Path) -> float:
    """When it was last written to."""
    try:
        return max(path.stat().st_mtime for path in (folder, folder / "saved_model.pb"))
    except OSError:
        return 0.0


def _due(version: Version, written: float) -> bool:
    """Whether to try to load it: it is new, was mended, or some time has passed."""
    if version.state is State.START or written != version.seen:
        return version.state in (State.START, State.END)
    if version.state is not State.END:
        return False
    if version.failure is None:  # it was let go and is wanted again
        return True
    return (
        version.attempts <= _RETRIES
        and time.monotonic() - version.tried >= _RETRY_SECONDS
    )
