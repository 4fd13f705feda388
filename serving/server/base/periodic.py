"""Periodic work in a background thread."""

import logging
import threading
from collections.abc import Callable

from transbeam.configs.system.daemon_threads import BackgroundThread

_GOODBYE_SECONDS = 2.0

_log = logging.getLogger("transbeam.serve")


class Repeated(BackgroundThread):
    """A thread that calls a function at an interval until it is closed.

    The first call follows one interval after the start.

    Args:
        work: The function. An exception in a call is logged, and later calls still take
            place.
        seconds: Pause between the end of a call and the start of the next one.
        name: Name of the thread.

    Example:
    >>> done = threading.Event()
    >>> repeated = Repeated(done.set, seconds=0.001, name="an example")
    >>> repeated.start()
    >>> done.wait(10)
    True
    >>> repeated.close()
    """

    def __init__(self, work: Callable[[], object], seconds: float, name: str):
        super().__init__(self._repeat, name)
        self._work = work
        self._seconds = seconds
        self._closed = threading.Event()

    def close(self) -> None:
        """Stops the thread after the current call; waits only briefly for this call."""
        self._closed.set()
        if self.is_alive():
            self.join(_GOODBYE_SECONDS)

    def _repeat(self) -> None:
        while not self._closed.wait(self._seconds):
            try:
                self._work()
            except Exception:  # the next call may succeed
                _log.exception("%s: failed, and will be tried again", self.name)
