"""Runs a reader on one file, for the tests of the readers."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from transbeam.pipeline.documents.document import Document, Rejected, SourceFile, Span
from transbeam.pipeline.sources.files.reading_report import ReadingReport, reported


def read_file(reader: Any, source: Any, step: int = 0) -> list[Document | Rejected]:
    """Everything in a file, read in spans of `step` bytes; at once if that is 0."""
    path = Path(source.path)
    file = SourceFile.at(path, path.name)
    step = step or max(file.size, 1)
    spans = [
        Span(file, start, min(start + step, file.size))
        for start in range(0, max(file.size, 1), step)
    ]
    return [item for span in spans for item in reader.read(span, source)]


def notes_while(read: Callable[[], Iterable[Any]]) -> Counter[tuple[str, str, str]]:
    """Kind, file and detail of what is noted during a call, and how often."""

    def items() -> Iterator[Any]:
        yield from read()

    report = ReadingReport()
    for _ in reported(items(), report):
        pass
    return report.noted


def texts(items: list[Document | Rejected]) -> list[str]:
    """The texts of the documents; what was rejected must not be among them."""
    assert all(isinstance(item, Document) for item in items), items
    return [item.text for item in items if isinstance(item, Document)]


def reasons(items: list[Document | Rejected]) -> list[tuple[int, str]]:
    """Offset and reason of what was rejected."""
    return [(i.offset, i.reason) for i in items if isinstance(i, Rejected)]
