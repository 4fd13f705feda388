"""Moves long work off the event loop into worker threads."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from transbeam.serving.server.base.batched_arrays import Arrays
from transbeam.serving.server.base.thread_priority import yield_to_others

# Parsing or writing more bytes or numbers than these would block the event loop.
LARGE_BODY = 2**15
_MANY_NUMBERS = 2**14

_Done = TypeVar("_Done")


def are_many(outputs: Arrays) -> bool:
    """Returns True if the outputs are too large to be serialized on the event loop.

    Args:
        outputs: Arrays by name.
    """
    return sum(values.size for values in outputs.values()) > _MANY_NUMBERS


async def aside(large: bool, work: Callable[[], _Done]) -> _Done:
    """Runs a function, in a low-priority worker thread if the work is large.

    Args:
        large: True to use a worker thread.
        work: The function.
    """

    def yielding() -> _Done:
        yield_to_others(threading.get_native_id())
        return work()

    # The loop's default executor, which is shut down with the loop: other threads would
    # outlive it and disturb the exit of the process.
    return await asyncio.to_thread(yielding) if large else work()
