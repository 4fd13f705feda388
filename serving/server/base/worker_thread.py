"""Work that takes long leaves the event loop, in which everybody else is answered."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from transbeam.serving.server.base.batched_arrays import Arrays
from transbeam.serving.server.base.thread_priority import yield_to_others

# Reading or writing more than so many bytes or numbers would keep the others waiting.
LARGE_BODY = 2**15
_MANY_NUMBERS = 2**14

_Done = TypeVar("_Done")


def are_many(outputs: Arrays) -> bool:
    """Tells if outputs take long to write.

    Args:
        outputs: By their names.
    """
    return sum(values.size for values in outputs.values()) > _MANY_NUMBERS


async def aside(large: bool, work: Callable[[], _Done]) -> _Done:
    """Does something, in a thread that yields to others if it takes long.

    Args:
        large: Whether it does.
        work: What to do.
    """

    def yielding() -> _Done:
        yield_to_others(threading.get_native_id())
        return work()

    # The loop's own threads, which end with it: a thread that stayed would make the
    # end of a command an abrupt one.
    return await asyncio.to_thread(yielding) if large else work()
