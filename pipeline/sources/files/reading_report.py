"""Reports of readers: dropped text, detected encodings, notes about files.

A reader yields documents. Text that the reader drops, and its decisions and notes about
a whole file, are added to the report of the caller, if the caller has a report. Any
function that a reader calls, however deeply nested, can add to the report. A report
belongs to one iteration, even if other generators and threads read at the same time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar


@dataclass
class ReadingReport:
    """Information about the reading of a work unit besides its documents.

    Attributes:
        dropped: The number of markup items (such as wiki templates) that were removed
            from sentences, by kind of markup.
        encodings: Codec and confidence of each file whose encoding was detected.
        page_encodings: The number of web pages with a detected encoding, by codec.
        noted: The number of notes, by kind, file name and detail.
    """

    dropped: Counter[str] = field(default_factory=Counter)
    encodings: dict[str, tuple[str, float]] = field(default_factory=dict)
    page_encodings: Counter[str] = field(default_factory=Counter)
    noted: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        """Returns the report as JSON values, for the marker file of a work unit."""
        noted = [
            {"kind": kind, "source": file, "detail": detail, "times": times}
            for (kind, file, detail), times in self.noted.items()
        ]
        return {**vars(self), "noted": noted}


_MOST_KINDS = 100
_CURRENT: ContextVar[ReadingReport | None] = ContextVar("report", default=None)
_Item = TypeVar("_Item")


def reported(items: Iterable[_Item], report: ReadingReport) -> Iterator[_Item]:
    """Yields the items; reports made while they are read are added to `report`.

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
    """Reports the numbers of markup items removed from sentences, by kind of markup."""
    if report := _CURRENT.get():
        report.dropped.update(counts)


def report_encoding(file: str, codec: str, confidence: float) -> None:
    """Reports the encoding that was detected for a file, by its name in the corpus."""
    if report := _CURRENT.get():
        report.encodings[file] = codec, round(confidence, 3)


def report_page_encoding(codec: str) -> None:
    """Reports the detected encoding of a web page that declares none."""
    if report := _CURRENT.get():
        report.page_encodings[codec] += 1


def report_note(kind: str, file: str, detail: str) -> None:
    """Reports a note about a file for the user.

    Args:
        kind: The kind of note, in a few words; equal notes about a file are counted.
        file: The file's name in the corpus.
        detail: The consequence and a remedy.
    """
    if report := _CURRENT.get():
        report.noted[kind, file, detail] += 1


def dropped_in_sentences(states: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Sums the numbers of markup items removed from sentences, by kind of markup.

    In wikis, a kind of markup is a template, a parser function or a tag, by name, or
    `{{{parameter}}}` for all parameters. There are tens of thousands of kinds; only the
    most frequent kinds are listed, and the counts of all other kinds are summed.

    Args:
        states: The contents of the work units' marker files, which include their
            reading reports.
    """
    counts = sum_counts(state.get("dropped", {}) for state in states)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    others = sum(count for _, count in ranked[_MOST_KINDS:])
    return {**dict(ranked[:_MOST_KINDS]), **({"others": others} if others else {})}


def detected_encodings(states: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Lists codec and confidence of each file with a detected encoding.

    Web pages are counted by their codec.

    Args:
        states: The contents of the work units' marker files, which include their
            reading reports.
    """
    states = list(states)
    pages = sum_counts(state.get("page_encodings", {}) for state in states)
    return [
        {"file": file, "codec": codec, "confidence": confidence}
        for state in states
        for file, (codec, confidence) in sorted(state.get("encodings", {}).items())
    ] + [{"web_pages": pages[codec], "codec": codec} for codec in sorted(pages)]


def describe_encodings(found: Iterable[Mapping[str, Any]]) -> str:
    """Describes the detected codecs, with the least certain file of each codec.

    Args:
        found: The result of `detected_encodings`.

    Example:
    >>> certain = {"file": "a.txt", "codec": "utf-8", "confidence": 1.0}
    >>> guessed = {"file": "b.txt", "codec": "cp1251", "confidence": 0.66}
    >>> describe_encodings([certain, guessed])
    'cp1251 (1 file; b.txt with a confidence of 0.66), utf-8 (1 file)'
    """
    files: dict[str, list[tuple[float, str]]] = {}
    pages: list[str] = []
    for row in found:
        if "file" in row:
            files.setdefault(row["codec"], []).append((row["confidence"], row["file"]))
        else:
            pages.append(f"{row['codec']} ({row['web_pages']:,} web pages)")
    shown: list[str] = []
    for codec, rows in sorted(files.items()):
        confidence, name = min(rows)
        number = f"{len(rows):,} file" + "s" * (len(rows) != 1)
        doubt = f"; {name} with a confidence of {confidence:.2f}"
        shown.append(f"{codec} ({number}{doubt if confidence < 1 else ''})")
    return ", ".join(shown + pages)


def noted(states: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sums the notes about files: kind, file, detail, number of occurrences.

    Args:
        states: The contents of the work units' marker files, which include their
            reading reports.
    """
    times: Counter[tuple[str, str, str]] = Counter()
    for state in states:
        for note in state["noted"]:
            times[note["source"], note["kind"], note["detail"]] += note["times"]
    return [
        {"kind": kind, "source": source, "detail": detail, "times": number}
        for (source, kind, detail), number in sorted(times.items())
    ]


def sum_counts(rows: Iterable[Mapping[str, int]]) -> Counter[str]:
    """Sums counts by name."""
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row)
    return total
