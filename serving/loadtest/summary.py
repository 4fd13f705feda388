"""What a stage of a load test has shown, in numbers and as a table."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from transbeam.serving.loadtest.load_loops import Sample
from transbeam.serving.loadtest.server_metrics import ServerCounts

PERCENTILES = (50, 90, 99, 99.9)
_HEADER = ("load", "asked", "errors", "answers/s", "p50", "p90", "p99", "p99.9")
_SERVER_HEADER = ("rows/batch", "queue", "compute", "memory")


@dataclass(frozen=True)
class LoadStage:
    """One load, and how the server bore it.

    Attributes:
        load: `8 clients`, or `50.0/s`.
        asked: Requests.
        errors: How many of each code.
        answers_per_second: Good ones.
        milliseconds: By percentile, of good ones, from when a request was due; nothing
            if there are none.
        rows_per_batch: By the server's own count, as what follows; nothing if it tells
            none.
        queue_ms: That the first request of a batch waited, on average.
        compute_ms: That a batch took, on average.
        memory_mb: Before and after.
    """

    load: str
    asked: int
    errors: dict[str, int]
    answers_per_second: float
    milliseconds: dict[str, float | None]
    rows_per_batch: float | None = None
    queue_ms: float | None = None
    compute_ms: float | None = None
    memory_mb: tuple[float, float] | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def summarize(
    load: str,
    samples: Sequence[Sample],
    seconds: float,
    before: ServerCounts | None = None,
    after: ServerCounts | None = None,
) -> LoadStage:
    """Sums a stage up.

    Args:
        load: What it was.
        samples: Its requests.
        seconds: How long it lasted.
        before: What the server told before.
        after: And after.
    """
    good = np.array([s.seconds for s in samples if not s.error]) * 1000
    values: list[float | None] = [None] * len(PERCENTILES)
    if good.size:
        values = np.percentile(good, PERCENTILES).tolist()
    named = zip(map(_name, PERCENTILES), values, strict=True)
    stage: dict[str, Any] = {
        "load": load,
        "asked": len(samples),
        "errors": dict(Counter(s.error for s in samples if s.error)),
        "answers_per_second": good.size / seconds,
        "milliseconds": dict(named),
    }
    if before and after and after.batches > before.batches:
        batches = after.batches - before.batches
        stage["rows_per_batch"] = (after.rows - before.rows) / batches
        stage["queue_ms"] = 1000 * (after.queued - before.queued) / batches
        stage["compute_ms"] = 1000 * (after.computed - before.computed) / batches
    if before and after and after.memory:
        stage["memory_mb"] = (before.memory / 1e6, after.memory / 1e6)
    return LoadStage(**stage)


def table(stages: Sequence[LoadStage]) -> str:
    """The stages one below the other; times in milliseconds, memory in MB."""
    told = any(stage.queue_ms is not None for stage in stages)
    rows = [(*_HEADER, *(_SERVER_HEADER if told else ()))]
    rows += [_row(stage, told) for stage in stages]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _row(stage: LoadStage, told: bool) -> tuple[str, ...]:
    row = (
        stage.load,
        f"{stage.asked:,}",
        f"{sum(stage.errors.values()):,}",
        f"{stage.answers_per_second:,.1f}",
        *map(_shown, stage.milliseconds.values()),
    )
    if not told:
        return row
    memory = stage.memory_mb
    return (
        *row,
        *map(_shown, (stage.rows_per_batch, stage.queue_ms, stage.compute_ms)),
        "-" if memory is None else f"{memory[0]:,.0f} → {memory[1]:,.0f}",
    )


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _name(percentile: float) -> str:
    return f"p{percentile:g}"
