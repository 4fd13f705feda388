"""Moves long work off the event loop into threads of lower priority."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from transbeam.serving.server.base.batched_arrays import Arrays

# Parsing or writing more bytes or numbers than these would block the event loop.
LARGE_BODY = 2**15
_MANY_NUMBERS = 2**14
# At this niceness, a thread gets a quarter of a CPU that is contended.
_NICE = 5

_Done = TypeVar("_Done")


def are_large(outputs: Arrays) -> bool:
    """Returns True if the outputs are too large to be serialized on the event loop.

    Args:
        outputs: Arrays by name.
    """
    return sum(values.size for values in outputs.values()) > _MANY_NUMBERS


async def run_in_thread(large: bool, work: Callable[[], _Done]) -> _Done:
    """Runs a function, in a low-priority worker thread if the work is large.

    Args:
        large: True to run the function in a worker thread.
        work: The function.
    """

    def yielding() -> _Done:
        lower_priority(threading.get_native_id())
        return work()

    # The loop's default executor, which is shut down with the loop: other threads would
    # outlive it and disturb the exit of the process.
    return await asyncio.to_thread(yielding) if large else work()


def lower_priority(thread: int) -> None:
    """Lowers the CPU priority of a thread, on systems with priorities per thread.

    Args:
        thread: Native id of the thread; see `threading.get_native_id`.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # the thread has ended
            os.setpriority(
                os.PRIO_PROCESS,
                thread,
                min(19, os.getpriority(os.PRIO_PROCESS, os.getpid()) + _NICE),
            )
