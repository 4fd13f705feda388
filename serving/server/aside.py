"""Work that takes long leaves the event loop, in which everybody else is answered."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from serving.server.models.rows import Arrays
from serving.server.yielding import yield_to_others

# Reading or writing more than so many bytes or numbers would keep the others waiting.
LARGE_BODY = 2**15
_MANY_NUMBERS = 2**14

_Done = TypeVar("_Done")

_threads = ThreadPoolExecutor(
    4, "aside", lambda: yield_to_others(threading.get_native_id())
)


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
    if not large:
        return work()
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_threads, context.run, work)
