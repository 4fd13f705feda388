"""Damage of a file: where, why, and how much of the file it is."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Damage:
    """A stretch of a file that could not be read.

    Attributes:
        reason: Why, in a few words; what could not be read is counted by it.
        detail: What more there is to say to whoever looks at the file.
        offset: Where it begins, as in `Document`.
        unread: Bytes of the file; None for all that was to be read of it.
        doubtful: Whether more may be lost, or wrong, than the file can tell.
    """

    reason: str
    detail: str = ""
    offset: int = 0
    unread: int | None = None
    doubtful: bool = False


class BrokenFile(Exception):
    """A file that cannot be read on; what was read of it before stays.

    Args:
        reason: As in `Damage`, and so are the others.

    Attributes:
        damage: Every stretch that could not be read, in order.
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
        """The same for several stretches; it is called by the last one."""
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
