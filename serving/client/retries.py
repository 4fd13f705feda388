"""Asks again when it may go better: a server that starts, reloads or has much to do."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from transbeam.serving.client.interface import Connection, ServerError

T = TypeVar("T")

_FIRST = 0.05  # seconds
_LONGEST = 2.0


def with_retries(
    attempt: Callable[[float], T],
    connection: Connection,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Attempts something until it goes well, is refused for good, or time is up.

    Pauses double, and are cut by chance, so that clients that were refused together do
    not come back together.

    Args:
        attempt: Is given the seconds that are left.
        connection: Has the seconds for all attempts, and whether there is a second.
        sleep: Waits.

    Raises:
        ServerError: The last one, if none went well.
    """
    end = time.monotonic() + connection.timeout
    pause = _FIRST
    while True:
        try:
            return attempt(max(end - time.monotonic(), 0.001))
        except ServerError as error:
            wait = pause * random.uniform(0.5, 1.0)
            last = not (error.again and connection.retry)
            if last or time.monotonic() + wait >= end:
                raise
        sleep(wait)
        pause = min(2 * pause, _LONGEST)
