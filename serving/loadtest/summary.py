"""Statistics of the stages of a load test, and their table."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from transbeam.serving.loadtest.load_loops import Sample
from transbeam.serving.loadtest.server_metrics import ServerCounts

PERCENTILES = (50, 90, 99, 99.9)
_HEADER = ("load", "asked", "errors", "answers/s", "p50", "p90", "p99", "p99.9")
_SERVER_HEADER = ("rows/batch", "queue", "compute", "memory")


@dataclass(frozen=True)
class LoadStage:
    """The results of a load test stage, at one number of clients or request rate.

    Attributes:
        load: The description of the load, such as `8 clients` or `50/s`.
        asked: The number of requests.
        errors: The number of errors by status code.
        answers_per_second: Successful responses per second.
        milliseconds: Latency percentiles of successful requests, measured from the time
            at which each request was due; None if no request succeeded.
        rows_per_batch: Mean number of rows per batch. `rows_per_batch`, `queue_ms`,
            `compute_ms` and `memory_mb` are from the server's metrics, and None if the
            server provides none.
        queue_ms: Mean waiting time of the first request of a batch.
        compute_ms: Mean computation time of a batch.
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


def summarize(
    load: str,
    samples: Sequence[Sample],
    seconds: float,
    before: ServerCounts | None = None,
    after: ServerCounts | None = None,
) -> LoadStage:
    """Computes the statistics of a load test stage.

    Args:
        load: The description of the load, such as `8 clients` or `50/s`.
        samples: Its requests.
        seconds: Its duration.
        before: The server's metrics before the stage.
        after: And after.
    """
    good = np.array([s.seconds for s in samples if not s.error]) * 1000
    values = (
        np.percentile(good, PERCENTILES).tolist()
        if good.size
        else [None] * len(PERCENTILES)
    )
    percentiles = zip(PERCENTILES, values, strict=True)
    stage: dict[str, Any] = {
        "load": load,
        "asked": len(samples),
        "errors": dict(Counter(s.error for s in samples if s.error)),
        "answers_per_second": good.size / seconds,
        "milliseconds": {f"p{share:g}": value for share, value in percentiles},
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
    """Formats the stages as a table; times in milliseconds, memory in MB."""
    with_server = any(stage.queue_ms is not None for stage in stages)
    rows = [(*_HEADER, *(_SERVER_HEADER if with_server else ()))]
    rows += [_row(stage, with_server=with_server) for stage in stages]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _row(stage: LoadStage, *, with_server: bool) -> tuple[str, ...]:
    row = (
        stage.load,
        f"{stage.asked:,}",
        f"{sum(stage.errors.values()):,}",
        f"{stage.answers_per_second:,.1f}",
        *map(_shown, stage.milliseconds.values()),
    )
    if not with_server:
        return row
    memory = stage.memory_mb
    return (
        *row,
        *map(_shown, (stage.rows_per_batch, stage.queue_ms, stage.compute_ms)),
        "-" if memory is None else f"{memory[0]:,.0f} → {memory[1]:,.0f}",
    )


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
