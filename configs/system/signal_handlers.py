"""Temporary signal handlers, in effect during a `with` block."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


@contextmanager
def handling(
    handle: Callable[[int, Any], None], *signals: signal.Signals
) -> Generator[None, None, None]:
    """A context in which a function handles signals; restores the old handlers at exit.

    Outside the main thread nothing is changed, as Python delivers signals only to the
    main thread.

    Args:
        handle: Called with the signal's number and the interrupted frame.
        signals: The signals to handle.

    Example:
    >>> with handling(lambda number, frame: print("stopped"), signal.SIGTERM):
    ...     signal.raise_signal(signal.SIGTERM)
    stopped
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handle) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
