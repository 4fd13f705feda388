"""Reports of readers: text that they dropped and encodings that they detected.

A reader yields documents. What it leaves out of them, and what it decides about a whole
file, goes into the report of whoever reads; where nobody asks for one, nowhere.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar


@dataclass
class ReadingReport:
    """What the readers of a unit of source tell beside its documents.

    Attributes:
        dropped: How often something was dropped inside a sentence, by its kind.
        encodings: Codec and confidence of each file whose encoding was detected.
        page_encodings: How many web pages were detected to be in each codec.
    """

    dropped: Counter[str] = field(default_factory=Counter)
    encodings: dict[str, tuple[str, float]] = field(default_factory=dict)
    page_encodings: Counter[str] = field(default_factory=Counter)


_CURRENT: ContextVar[ReadingReport | None] = ContextVar("report", default=None)
_Item = TypeVar("_Item")


def reported(items: Iterable[_Item], report: ReadingReport) -> Iterator[_Item]:
    """Yields the same items; what is reported while they are read goes into `report`.

    Example:
    >>> def read():
    ...     report_dropped({"<math>": 2})
    ...     yield "a document"
    >>> report = ReadingReport()
    >>> list(reported(read(), report)), report.dropped
    (['a document'], Counter({'<math>': 2}))
    """
    iterator = iter(items)
    while True:
        token = _CURRENT.set(report)
        try:
            item = next(iterator)
        except StopIteration:
            return
        finally:
            _CURRENT.reset(token)
        yield item


def report_dropped(counts: Mapping[str, int]) -> None:
    """Reports text that a reader dropped inside sentences, by its kind."""
    if report := _CURRENT.get():
        report.dropped.update(counts)


def report_encoding(file: str, codec: str, confidence: float) -> None:
    """Reports the encoding that was detected for a file, by its name in the corpus."""
    if report := _CURRENT.get():
        report.encodings[file] = codec, round(confidence, 3)


def report_page_encoding(codec: str) -> None:
    """Reports the encoding that was detected for a web page which declares none."""
    if report := _CURRENT.get():
        report.page_encodings[codec] += 1
