"""Limits on the number and the length of stop strings."""

from collections.abc import Sequence
from dataclasses import dataclass

from grpc import StatusCode

from transbeam.serving.server.base.status import StatusError


@dataclass(frozen=True, kw_only=True)
class StopLimits:
    """Limits on stop strings; each one is searched for after each generated token.

    Attributes:
        strings: Stop strings per text. OpenAI's API allows 4.
        string_bytes: Bytes of one stop string, in UTF-8.

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
        """Rejects too many or too long stop strings.

        Args:
            stops: Stop strings of one text; empty strings are ignored.

        Raises:
            StatusError: A limit is exceeded.
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
