"""Settings of request logging."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LogSettings:
    """Request log settings of a model.

    Attributes:
        prefix: Prefix of the log files' paths, folder included.
        share: Fraction of the successful requests to log, 0 to 1.
    """

    prefix: str
    share: float = 1.0
