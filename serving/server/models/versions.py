"""Versions of one model: polling, loading, and unloading.

A model's folder contains a numbered folder for each version. New versions are found by
polling, loaded while old versions stay available, and become available after their
warm-up; old versions are unloaded thereafter, each after its last request. A version
that fails to load does not affect other versions; its error is stored in its status.
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

# As in TF Serving: number of retries after the first attempt, and their interval.
_RETRIES = 5
_RETRY_SECONDS = 60.0
# Protocol buffers store a version as a signed 64-bit integer.
_NUMBER = re.compile(r"0*[0-9]{1,19}")
_LARGEST = 2**63 - 1
# Number of ended versions whose status is kept.
_REMEMBERED = 16

_log = logging.getLogger("transbeam.serve")


class State(IntEnum):
    """State of a version, with the numbers of `ModelVersionStatus.State`."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclass(frozen=True)
class Policy:
    """Policy that selects which of the existing versions to serve.

    Attributes:
        latest: Number of versions to serve, those with the highest version numbers;
            None for all.
        specific: Exact versions to serve; takes precedence over `latest`.
    """

    latest: int | None = 1
    specific: frozenset[int] = frozenset()

    def choose(self, numbers: Collection[int]) -> set[int]:
        """Selects the versions to serve from the existing versions.

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
    """Status of one version.

    Attributes:
        number: Version number.
        state: Current state.
        failure: Error that made the version unavailable; None if it was unloaded
            regularly.
        loaded: The loaded version while it is available.
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
        name: Name of the model.
        folder: Folder that contains the version folders.
        policy: Policy that selects the versions to serve.
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
        self._logged = ""

    def states(self) -> list[Version]:
        """Returns the status of every known version, newest first."""
        with self._lock:
            return sorted(self._versions.values(), key=lambda v: -v.number)

    def failures(self) -> list[str]:
        """Returns error messages of the versions that failed to load."""
        return [
            f"version {version.number}: {version.failure.message}"
            for version in self.states()
            if version.failure
        ]

    def available(self) -> list[int]:
        """Returns the numbers of the available versions."""
        return [v.number for v in self.states() if v.state is State.AVAILABLE]

    @contextmanager
    def use(self, number: int | None = None) -> Iterator[tuple[int, Loaded]]:
        """Yields an available version and keeps it loaded until the context exits.

        Args:
            number: Version number; the latest available version if None.

        Raises:
            StatusError: The version is not available.
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
            # Under the lock: otherwise it could be unloaded before it is in use.
            context = ready[wanted].used()
            loaded = context.__enter__()
        try:
            yield wanted, loaded
        finally:
            context.__exit__(None, None, None)

    def poll(self) -> None:
        """Loads and unloads versions according to the folder and the policy.

        Blocks without a time limit if the storage hangs.
        """
        with self._polling:
            if not self._closed:
                self._poll()

    def is_polling(self) -> bool:
        """Returns True while `poll` is running, even if its storage hangs."""
        return self._polling.locked()

    def _poll(self) -> None:
        there = self._folders()
        if not there:
            kept = self.available()
            answers = (
                f"Version {kept[0]} answers on" if kept else "Nothing is served yet"
            )
            message = (
                f"{self.name}: no versions in {self.folder}; expected folders with "
                f"numbers as names, such as 1. {answers}"
            )
            if message != self._logged:
                _log.warning(message)
            self._logged = message
            return
        self._logged = ""
        wanted = self.policy.choose(there)
        for number in sorted(wanted):
            self._load_version(number, there[number])
        available = set(self.available())
        if not wanted or wanted & available:
            for number in available - wanted:
                self._unload(number)
        self._forget(there)

    def close(self) -> None:
        """Rejects new requests; unloads all versions after their last request."""
        with self._lock:
            self._closed = True
        for number in self.available():
            self._unload(number, at_once=True)

    def _folders(self) -> dict[int, Path]:
        """Returns existing version folders; `7` and `007` are both version 7."""
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

    def _load_version(self, number: int, folder: Path) -> None:
        """Loads a version unless it is available or failed recently."""
        written = _written(folder)  # outside the lock: a hanging disk must block no one
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
        except Exception as error:  # an unexpected error must not end the polling
            _log.exception("%s: version %d", self.name, number)
            loaded = None
            failure = StatusError(
                StatusCode.INTERNAL, f"{type(error).__name__}: {error}"
            )
        with self._lock:
            came_late = loaded is not None and self._closed
            version.loaded, version.failure = None if came_late else loaded, failure
            version.state = State.AVAILABLE if version.loaded else State.END
        if loaded is not None and came_late:
            loaded.close()
        elif failure:
            _log.error("%s: version %d: %s", self.name, number, failure.message)
        else:
            _log.info(
                "%s: version %d is available (%.1f s)",
                self.name,
                number,
                time.monotonic() - began,
            )

    def _unload(self, number: int, *, at_once: bool = False) -> None:
        with self._lock:
            version = self._versions[number]
            loaded, version.loaded = version.loaded, None
            version.state = State.UNLOADING

        def close() -> None:
            if loaded is not None:
                loaded.close()
                if not at_once:  # unnecessary when the process exits
                    give_back_memory()
            with self._lock:
                version.state = State.END
                version.attempts = 0
            _log.info("%s: version %d is unloaded", self.name, number)

        if at_once:
            close()
        else:  # in a thread, as the next poll must not wait for a slow request
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
    """Creates the error for a model or version that is not available."""
    asked = f"Latest({name})" if number is None else f"Specific({name}, {number})"
    return StatusError(StatusCode.NOT_FOUND, f"Servable not found for request: {asked}")


def _written(folder: Path) -> float:
    """Returns the modification time of a version folder."""
    try:
        return max(path.stat().st_mtime for path in (folder, folder / "saved_model.pb"))
    except OSError:
        return 0.0


def _due(version: Version, written: float) -> bool:
    """Returns True if a version is new, modified, selected again or due for a retry."""
    if version.state is State.START or written != version.seen:
        return version.state in (State.START, State.END)
    if version.state is not State.END:
        return False
    if version.failure is None:  # it was unloaded and is selected again
        return True
    return (
        version.attempts <= _RETRIES
        and time.monotonic() - version.tried >= _RETRY_SECONDS
    )
