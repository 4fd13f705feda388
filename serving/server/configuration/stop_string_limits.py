"""Limits of the strings that end a text: their number and their length."""

from collections.abc import Sequence
from dataclasses import dataclass

from grpc import StatusCode

from transbeam.serving.server.base.status import StatusError


@dataclass(frozen=True, kw_only=True)
class StopLimits:
    """Limits of a request; each string is looked for after each token.

    Attributes:
        strings: Of one text. OpenAI's API takes 4.
        string_bytes: Of one string, in UTF-8.

    Example:
    >>> StopLimits(strings=1).check([b".", b"!"])
    Traceback (most recent call last):
        ...
    StatusError: INVALID_ARGUMENT: stop: found 2 strings for a \
text; expected at most 1
    """

    strings: int = 64
    string_bytes: int = 1024

    def check(self, stops: Sequence[bytes]) -> None:
        """Refuses too many strings, or one that is too long.

        Args:
            stops: Those of one text; empty ones do not count.

        Raises:
            Failure: They are beyond a limit.
        """
        stops = [stop for stop in stops if stop]
        if len(stops) > self.strings:
            raise _refused(
                "stop_strings",
                f"stop: found {len(stops)} strings for a text; expected at most "
                f"{self.strings}",
            )
        longest = max(map(len, stops), default=0)
        if longest > self.string_bytes:
            raise _refused(
                "stop_bytes",
                f"stop: found a string of {longest} bytes; expected at most "
                f"{self.string_bytes}",
            )


def _refused(reason: str, message: str) -> StatusError:
    return StatusError(StatusCode.INVALID_ARGUMENT, message, reason=reason)
