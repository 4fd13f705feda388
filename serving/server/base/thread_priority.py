"""Threads that have less of a processor than those of short requests."""

import os
import sys
from contextlib import suppress

# A quarter of a processor that is wanted by both.
_NICE = 5


def yield_to_others(thread: int) -> None:
    """Lets a thread have less of a processor, where the system has it by thread.

    Args:
        thread: Its number in the system; see `threading.get_native_id`.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # it has ended
            nice = os.getpriority(os.PRIO_PROCESS, os.getpid()) + _NICE
            os.setpriority(os.PRIO_PROCESS, thread, min(19, nice))
