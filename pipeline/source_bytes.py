"""Bytes of source by what became of them: used, filtered, quarantined or unread.

What a file takes up on the disk is known, and what of it could not be read; not what
each document takes up there, as it may be compressed or one column of several. So what
was read of a unit of source is shared out among its documents by their sizes as texts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.documents import Rejected


def shared_out(total: int, weights: Sequence[int]) -> list[int]:
    """Whole numbers in proportion to weights, that add up to a total.

    Args:
        total: What to share out.
        weights: At least one is not zero.

    Example:
    >>> shared_out(10, [1, 1, 1])
    [4, 3, 3]
    """
    whole = sum(weights)
    shares = [total * weight // whole for weight in weights]
    rests = [total * weight % whole for weight in weights]
    largest = sorted(range(len(weights)), key=lambda i: (-rests[i], i))
    for i in largest[: total - sum(shares)]:
        shares[i] += 1
    return shares


@dataclass
class UnreadFile:
    """A file of which something could not be read.

    Attributes:
        name: Its name within the corpus.
        size: Its bytes.
        unread: How many of them could not be read.
        documents: How many documents were read of it.
        doubtful: Whether more may be lost, or wrong, than the file can tell.
        reasons: Why, each in a few words.
    """

    name: str
    size: int
    unread: int = 0
    documents: int = 0
    doubtful: bool = False
    reasons: tuple[str, ...] = ()

    def add(self, entry: Rejected) -> None:
        """Takes a stretch into account that could not be read."""
        self.unread += entry.unread
        self.doubtful |= entry.doubtful
        if entry.reason not in self.reasons:
            self.reasons += (entry.reason,)


def unread_files(states: Iterable[Mapping[str, Any]]) -> list[UnreadFile]:
    """The files of a corpus that could not be read as a whole, by name.

    Args:
        states: What the steps that read the units left; a file may be in several.
    """
    files: dict[str, UnreadFile] = {}
    documents: Counter[str] = Counter()
    for state in states:
        for row in state["unread"]:
            documents[row["name"]] += row["documents"]
            file = files.setdefault(row["name"], UnreadFile(row["name"], row["size"]))
            file.unread += row["unread"]
            file.doubtful |= row["doubtful"]
            new = [r for r in row["reasons"] if r not in file.reasons]
            file.reasons += tuple(new)
    for name, file in files.items():
        file.documents = documents[name]
    return [files[name] for name in sorted(files)]
