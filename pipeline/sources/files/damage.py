"""Damage of a file: its offset, reason and extent."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Damage:
    """A part of a file that could not be read.

    Attributes:
        reason: The reason in a few words; damage is counted by it.
        detail: Further information for messages.
        offset: Its offset, as in `Document`.
        unread: The number of unread bytes; None for the rest of the file.
        doubtful: Whether an unknown further amount may be lost or wrong.
    """

    reason: str
    detail: str = ""
    offset: int = 0
    unread: int | None = None
    doubtful: bool = False


class BrokenFile(Exception):
    """The rest of a file cannot be read; documents read before are kept.

    Args:
        reason: As in `Damage`, like the other arguments.

    Attributes:
        damage: All parts that could not be read, in order.
    """

    def __init__(
        self,
        reason: str,
        detail: str = "",
        offset: int = 0,
        *,
        unread: int | None = None,
        doubtful: bool = False,
    ) -> None:
        super().__init__(reason, detail, offset)
        self.damage: tuple[Damage, ...] = (
            Damage(reason, detail, offset, unread, doubtful),
        )

    @classmethod
    def from_damage(cls, damage: Sequence[Damage]) -> "BrokenFile":
        """Makes the exception for several parts; its message is that of the last."""
        last = damage[-1]
        broken = cls(last.reason, last.detail, last.offset)
        broken.damage = tuple(damage)
        return broken

    @property
    def reason(self) -> str:
        return self.damage[-1].reason

    @property
    def detail(self) -> str:
        return self.damage[-1].detail

    @property
    def offset(self) -> int:
        return self.damage[-1].offset
