"""Retries requests to a server that is starting, reloading or busy."""

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
    """Retries a call until it succeeds, fails permanently, or the timeout expires.

    The backoff is exponential with random jitter, so that clients that were rejected
    together do not retry together.

    Args:
        attempt: Function that makes the call; takes the number of seconds that remain.
        connection: The connection, with the total timeout of all attempts, and whether
            to retry.
        sleep: Function that waits for a number of seconds.

    Raises:
        ServerError: No attempt succeeded; this is the error of the last attempt.
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
