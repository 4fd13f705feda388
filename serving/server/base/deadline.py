"""Deadlines of requests."""

import asyncio
import math
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from grpc import StatusCode

from transbeam.serving.server.base.status import StatusError

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Deadline:
    """The time at which a request and its computation are canceled.

    Attributes:
        seconds: The time limit.
        end: The value of `time.monotonic()` at which the time limit is reached.

    Example:
    >>> Deadline.after(10.0).left() > 9.0, Deadline.never().left()
    (True, inf)
    """

    seconds: float
    end: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        """Creates a deadline the given number of seconds from now."""
        return cls(seconds, time.monotonic() + seconds)

    @classmethod
    def never(cls) -> "Deadline":
        """Creates a deadline that never expires."""
        return cls(math.inf, math.inf)

    def left(self) -> float:
        """Returns the remaining seconds; 0 if the deadline has passed."""
        return max(0.0, self.end - time.monotonic())

    def missed(self) -> StatusError:
        """Returns the DEADLINE_EXCEEDED error of this deadline."""
        return StatusError(
            StatusCode.DEADLINE_EXCEEDED,
            f"Timed out: no answer within {self.seconds:g} s",
        )

    async def wait(self, answer: Awaitable[_Answer]) -> _Answer:
        """Awaits a result until the deadline.

        Raises:
            StatusError: The deadline passed; the awaited task is canceled.
        """
        try:
            return await asyncio.wait_for(answer, self.left())
        except TimeoutError:
            raise self.missed() from None
