"""What is to be written down."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LogSettings:
    """Where the requests of a model are written, and how many of them.

    Attributes:
        prefix: What the files' names begin with, their folder included.
        share: Of the requests that were answered, 0 to 1.
    """

    prefix: str
    share: float = 1.0
