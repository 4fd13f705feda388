"""Work that takes long leaves the event loop, in which everybody else is answered."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from serving.server.models.rows import Arrays

# Reading or writing more than so many bytes or numbers would keep the others waiting.
LARGE_BODY = 2**18
_MANY_NUMBERS = 2**14

_Done = TypeVar("_Done")


def are_many(outputs: Arrays) -> bool:
    """Tells if outputs take long to write.

    Args:
        outputs: By their names.
    """
    return sum(values.size for values in outputs.values()) > _MANY_NUMBERS


async def aside(large: bool, work: Callable[[], _Done]) -> _Done:
    """Does something, in a thread of its own if it takes long.

    Args:
        large: Whether it does.
        work: What to do.
    """
    return await asyncio.to_thread(work) if large else work()
