"""Work that is done again and again beside everything else."""

import logging
import threading
from collections.abc import Callable

from transbeam.configs.system.daemon_threads import SideThread

_GOODBYE_SECONDS = 2.0

_log = logging.getLogger("transbeam.serve")


class Repeated:
    """A thread that does something every few seconds, until it is closed.

    Args:
        work: What it does. An exception is written down, and the next time comes.
        seconds: From the end of one time to the beginning of the next.
        name: Of the thread.

    Example:
    >>> done = threading.Event()
    >>> repeated = Repeated(done.set, seconds=0.001, name="an example")
    >>> repeated.start()
    >>> done.wait(10)
    True
    >>> repeated.close()
    """

    def __init__(self, work: Callable[[], object], seconds: float, name: str):
        self._work = work
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = SideThread(self._repeat, name)

    def start(self) -> None:
        """Begins, with a wait."""
        self._thread.start()

    def close(self) -> None:
        """Ends it, after what is being done, unless that takes long."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_GOODBYE_SECONDS)

    def _repeat(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self._work()
            except Exception:  # the next time may go better
                _log.exception("%s: failed, and will be tried again", self._thread.name)
