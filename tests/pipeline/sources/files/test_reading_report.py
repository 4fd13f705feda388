"""A report is that of one iteration, whatever else is read at the same time."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from transbeam.pipeline.sources.files.reading_report import (
    ReadingReport,
    report_dropped,
    report_encoding,
    report_note,
    report_page_encoding,
    reported,
)


def read(name: str, items: int) -> Iterator[int]:
    """A reader that reports before its first item, between items and at its end."""
    report_encoding(name, "cp1251", 0.66666)
    for number in range(items):
        report_note("seen", name, "an item")
        yield number
        report_dropped({name: 1})
    report_page_encoding(name)


def report_of(name: str, items: int) -> ReadingReport:
    return ReadingReport(
        Counter({name: items}),
        {name: ("cp1251", 0.667)},
        Counter([name]),
        Counter({("seen", name, "an item"): items}),
    )


def test_generators_side_by_side_report_apart() -> None:
    a, b = ReadingReport(), ReadingReport()
    both = zip(reported(read("a", 3), a), reported(read("b", 3), b), strict=True)
    assert list(both) == [(0, 0), (1, 1), (2, 2)]
    assert (a, b) == (report_of("a", 3), report_of("b", 3))


def test_a_generator_within_another_reports_apart() -> None:
    inner = ReadingReport()

    def outer() -> Iterator[int]:
        report_dropped({"outer": 1})
        yield from reported(read("inner", 2), inner)
        report_dropped({"outer": 1})

    report = ReadingReport()
    assert list(reported(outer(), report)) == [0, 1]
    assert inner == report_of("inner", 2)
    assert report == ReadingReport(Counter(outer=2))


def test_threads_report_apart() -> None:
    reports = [ReadingReport() for _ in range(4)]
    together = Barrier(len(reports))

    def work(number: int) -> None:
        for _ in reported(read(str(number), 50), reports[number]):
            together.wait(timeout=10)

    with ThreadPoolExecutor(len(reports)) as pool:
        list(pool.map(work, range(len(reports))))
    assert reports == [report_of(str(number), 50) for number in range(len(reports))]


def test_an_iteration_in_several_threads_has_one_report() -> None:
    report = ReadingReport()
    items = reported(read("a", 4), report)
    found = []
    for _ in range(4):
        with ThreadPoolExecutor(1) as pool:
            found.append(pool.submit(next, items).result())
    assert next(items, None) is None
    assert (found, report) == ([0, 1, 2, 3], report_of("a", 4))


def test_without_a_report_nothing_is_kept() -> None:
    report = ReadingReport()
    items = reported(read("a", 2), report)
    next(items)
    assert list(read("b", 2)) == [0, 1]
    items.close()
    report_note("seen", "c", "after the iteration")
    assert report.dropped == {}
    assert list(report.noted) == [("seen", "a", "an item")]


def test_the_marker_of_a_unit_names_its_notes() -> None:
    assert report_of("a", 2).as_json() == {
        "dropped": {"a": 2},
        "encodings": {"a": ("cp1251", 0.667)},
        "page_encodings": {"a": 1},
        "noted": [{"kind": "seen", "source": "a", "detail": "an item", "times": 2}],
    }
