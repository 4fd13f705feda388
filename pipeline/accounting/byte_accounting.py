"""Accounts for source bytes: used, filtered, quarantined or unread.

The size of each file on disk and the number of its bytes that could not be read are
known. The size of each document on disk is unknown, as a file may be compressed, or the
text may be one of several columns. Therefore the bytes read from a work unit are
attributed to its documents in proportion to their text sizes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from transbeam.configs.base.errors import DataError
from transbeam.pipeline.documents.document import (
    Document,
    Filtered,
    Rejected,
    SourceFile,
)


def shared_out(total: int, weights: Sequence[int]) -> list[int]:
    """Splits a total into integers in proportion to weights.

    Args:
        total: The sum of the returned integers.
        weights: The weights, of which at least one is not zero.

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
    """A file that could not be read completely.

    Attributes:
        name: The file's name within the corpus.
        size: The file's size in bytes.
        unread: The number of bytes that could not be read.
        documents: The number of documents that were read from the file.
        doubtful: Whether an unknown further amount of the file may be lost or wrong.
        reasons: Short reasons why bytes could not be read.
    """

    name: str
    size: int
    unread: int = 0
    documents: int = 0
    doubtful: bool = False
    reasons: tuple[str, ...] = ()

    def add(self, entry: Rejected) -> None:
        """Adds bytes that could not be read, and the reason."""
        self.unread += entry.unread
        self.doubtful |= entry.doubtful
        if entry.reason not in self.reasons:
            self.reasons += (entry.reason,)


class UnreadFiles:
    """Collects the files of a work unit that could not be read completely."""

    def __init__(self) -> None:
        self._documents: Counter[str] = Counter()
        self._files: dict[str, UnreadFile] = {}

    def enter(self, file: SourceFile, outcome: Document | Filtered | Rejected) -> None:
        """Adds the outcome of reading a document.

        Args:
            file: The file from which the document was read.
            outcome: The document, or the record of why it is filtered or quarantined.
        """
        if isinstance(outcome, Document):
            self._documents[file.name] += 1
        elif isinstance(outcome, Rejected) and (outcome.unread or outcome.doubtful):
            unread = UnreadFile(file.name, file.size)
            self._files.setdefault(file.name, unread).add(outcome)

    def rows(self) -> list[dict[str, Any]]:
        """Returns the incompletely read files as JSON values, for the marker."""
        for file in self._files.values():
            file.unread = min(file.unread, file.size)
            file.documents = self._documents[file.name]
        return [asdict(file) for file in self._files.values()]


def unread_files(states: Iterable[Mapping[str, Any]]) -> list[UnreadFile]:
    """Merges the records of incompletely read files of all work units, sorted by name.

    Args:
        states: The markers of the work units; a file may be recorded in several of
            them.
    """
    files: dict[str, UnreadFile] = {}
    documents: Counter[str] = Counter()
    for state in states:
        for row in state["unread"]:
            documents[row["name"]] += row["documents"]
            file = files.setdefault(row["name"], UnreadFile(row["name"], row["size"]))
            file.unread += row["unread"]
            file.doubtful |= row["doubtful"]
            file.reasons = tuple(dict.fromkeys([*file.reasons, *row["reasons"]]))
    for name, file in files.items():
        file.documents = documents[name]
    return [files[name] for name in sorted(files)]


def unread_json(files: Sequence[UnreadFile]) -> dict[str, Any]:
    """Returns the number of unread bytes and the affected files as JSON values."""
    return {
        "bytes": sum(file.unread for file in files),
        "files": [asdict(file) for file in files],
    }


def named(files: Sequence[UnreadFile], most: int = 5) -> str:
    """Describes the incompletely read files, as part of a message.

    Example:
    >>> named([UnreadFile("a.parquet", 2_000, unread=1_500)])
    '1,500 of 2,000 bytes of a.parquet'
    >>> named([UnreadFile("a.gz", 2_000, doubtful=True)])
    'an unknown rest of a.gz'
    """
    ordered = sorted(files, key=lambda file: -file.unread)
    shown = [_lost_bytes(file) for file in ordered[:most]]
    more = len(files) - most
    return ", ".join(shown) + (f" and {more:,} files more" if more > 0 else "")


def _lost_bytes(file: UnreadFile) -> str:
    if file.doubtful and not file.unread:
        return f"an unknown rest of {file.name}"
    rest = " and an unknown rest" if file.doubtful else ""
    return f"{file.unread:,} of {file.size:,} bytes of {file.name}{rest}"


def check_complete(files: Iterable[UnreadFile], most: int = 5) -> None:
    """Raises an error if an unknown amount of a file is lost or wrong.

    Args:
        files: The incompletely read files.
        most: The maximum number of files that the message names.

    Raises:
        DataError: An unknown amount of a file is lost or wrong.
    """
    doubtful = [file for file in files if file.doubtful]
    if not doubtful:
        return
    shown = [_doubt(file) for file in doubtful[:most]]
    if len(doubtful) > most:
        shown.append(f"and {len(doubtful) - most:,} files more are not whole either")
    raise DataError(
        f"data.source: {'; '.join(shown)}. Get the files again or take them out of the "
        "corpus; data.accept_incomplete_files=true uses what there is of them"
    )


def _doubt(file: UnreadFile) -> str:
    if any(reason.startswith("truncated") for reason in file.reasons):
        return (
            f"{file.name} ends after {file.size:,} bytes, {file.documents:,} "
            "documents; the rest is not in the file"
        )
    return (
        f"{file.name} is damaged ({', '.join(file.reasons)}): what was read of it, "
        f"{file.documents:,} documents, may be wrong"
    )
