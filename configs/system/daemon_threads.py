"""Threads that nobody waits for: their work may never end, as on storage that hangs."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class SideThread(threading.Thread):
    """A thread that goes on or not when the process ends.

    Args:
        work: What it does.
        name: Of the thread.
    """

    def __init__(self, work: Callable[[], object], name: str):
        super().__init__(target=work, name=name, daemon=True)


def begin_aside(work: Callable[[], T], name: str) -> Future[T]:
    """Begins something in a thread that nobody has to wait for.

    Args:
        work: What to do.
        name: Of the thread.

    Returns:
        How it ends, if it does.

    Example:
    >>> begin_aside(lambda: 6 * 7, "an example").result(10)
    42
    """
    found: Future[T] = Future()

    found.set_running_or_notify_cancel()  # nobody can cancel what is not waited for

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:  # told to who asks for the result
            found.set_exception(error)

    SideThread(run, name).start()
    return found


def any_left() -> bool:
    """Looks for such a thread that is still at work."""
    return any(isinstance(thread, SideThread) for thread in threading.enumerate())
