"""Measuring two ways of doing the same work, in turns."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """What was measured.

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
        cells = [
            self.work,
            self._rate(self.ours),
            f"{self.peer} {self._rate(self.theirs)}",
            f"{statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})",
        ]
        return "| " + " | ".join(cells) + " |"

    def _rate(self, seconds: list[float]) -> str:
        rates = sorted(self.amount / s for s in seconds)
        median = statistics.median(rates)
        return f"{median:,.1f} ({rates[0]:,.1f}-{rates[-1]:,.1f}) {self.unit}/s"


def in_turns(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int
) -> tuple[list[float], list[float]]:
    """Seconds of `rounds` runs of each, after one of each to warm up."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for round_number in range(rounds + 1):
        for which, run in enumerate((ours, theirs)):
            began = time.perf_counter()
            run()
            if round_number:
                seconds[which].append(time.perf_counter() - began)
    return seconds
