"""Until when an answer is wanted."""

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
    """When a request is given up, and the work for it with it.

    Attributes:
        seconds: That it was given.
        end: When they are over, as `time.monotonic` counts.

    Example:
    >>> Deadline.after(10.0).left() > 9.0, Deadline.never().left()
    (True, inf)
    """

    seconds: float
    end: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        """One so many seconds from now."""
        return cls(seconds, time.monotonic() + seconds)

    @classmethod
    def never(cls) -> "Deadline":
        """None at all."""
        return cls(math.inf, math.inf)

    def left(self) -> float:
        """Seconds until then; 0 if it has passed."""
        return max(0.0, self.end - time.monotonic())

    def missed(self) -> StatusError:
        """What to tell a client whose answer did not come in time."""
        message = f"Timed out: no answer within {self.seconds:g} s"
        return StatusError(StatusCode.DEADLINE_EXCEEDED, message)

    async def wait(self, answer: Awaitable[_Answer]) -> _Answer:
        """The answer, if it comes in time.

        Raises:
            Failure: It does not; then it is cancelled.
        """
        try:
            return await asyncio.wait_for(answer, self.left())
        except TimeoutError:
            raise self.missed() from None
