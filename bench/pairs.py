"""Measuring ways of doing the same work, in turns."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """Measurements of a pair.

    Attributes:
        work: What was done.
        peer: Who did it besides us.
        ours: Seconds of each of our runs.
        theirs: Seconds of each of the peer's.
        amount: How much of `unit` one run gets through.
        unit: Such as `MB`.
    """

    work: str
    peer: str
    ours: list[float]
    theirs: list[float]
    amount: float
    unit: str

    def as_row(self) -> str:
        """A row of the table in RESULTS.md: medians, ranges, and the ratio's range."""
        ratios = [b / a for a, b in zip(self.ours, self.theirs, strict=True)]
        return row(
            self.work,
            self._rate(self.ours),
            f"{self.peer} {self._rate(self.theirs)}",
            spread(ratios, ".2f", "x"),
        )

    def _rate(self, seconds: list[float]) -> str:
        return f"{spread([self.amount / s for s in seconds], ',.1f')} {self.unit}/s"


def row(*cells: str) -> str:
    """A row of a table in Markdown."""
    return "| " + " | ".join(cells) + " |"


def heading(*cells: str) -> str:
    """The first two lines of a table in Markdown."""
    return row(*cells) + "\n" + row(*["---"] * len(cells))


def spread(values: Sequence[float], form: str, unit: str = "") -> str:
    """The median, and the smallest and the largest value in brackets.

    Args:
        values: At least one.
        form: How to write a number, such as `.1f`.
        unit: What to write behind the median.
    """
    median = statistics.median(values)
    return f"{median:{form}}{unit} ({min(values):{form}}-{max(values):{form}})"


def in_turns(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int
) -> tuple[list[float], list[float]]:
    """Seconds of `rounds` runs of each, after one of each to warm up."""
    seconds = all_in_turns([ours, theirs], rounds)
    return seconds[0], seconds[1]


def all_in_turns(
    runs: Sequence[Callable[[], object]], rounds: int
) -> list[list[float]]:
    """As `in_turns`, for any number of ways: seconds of each way's runs."""
    seconds: list[list[float]] = [[] for _ in runs]
    for round_number in range(rounds + 1):
        for taken, run in zip(seconds, runs, strict=True):
            began = time.perf_counter()
            run()
            if round_number:
                taken.append(time.perf_counter() - began)
    return seconds
