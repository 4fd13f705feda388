"""CPU priority of threads that run long requests."""

import os
import sys
from contextlib import suppress

# At this niceness, a thread gets a quarter of a CPU that is contended.
_NICE = 5


def yield_to_others(thread: int) -> None:
    """Lowers the CPU priority of a thread, on systems with priorities per thread.

    Args:
        thread: Native id of the thread; see `threading.get_native_id`.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # the thread has ended
            nice = os.getpriority(os.PRIO_PROCESS, os.getpid()) + _NICE
            os.setpriority(os.PRIO_PROCESS, thread, min(19, nice))
