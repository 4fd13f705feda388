"""Daemon threads, for work that may never end, as on hanging storage."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class BackgroundThread(threading.Thread):
    """A daemon thread: the process does not wait for it at exit.

    Args:
        work: The function to run.
        name: The thread's name.
    """

    def __init__(self, work: Callable[[], object], name: str):
        super().__init__(target=work, name=name, daemon=True)


def run_in_background(work: Callable[[], T], name: str) -> Future[T]:
    """Runs a function in a daemon thread.

    Args:
        work: The function to run.
        name: The thread's name.

    Returns:
        A future of the function's result.

    Example:
    >>> run_in_background(lambda: 6 * 7, "an example").result(10)
    42
    """
    found: Future[T] = Future()

    found.set_running_or_notify_cancel()  # so that it cannot be cancelled

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:  # raised again by `result`
            found.set_exception(error)

    BackgroundThread(run, name).start()
    return found


def any_running() -> bool:
    """Returns whether a `BackgroundThread` is still running."""
    return any(isinstance(thread, BackgroundThread) for thread in threading.enumerate())
