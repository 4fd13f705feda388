"""The results of tasks as a table, and as an HTML page with curves over the shots."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from transbeam.configs.cli.progress import duration
from transbeam.configs.schema.task_file import TaskFileConfig
from transbeam.pipeline.pages.html_templates import render
from transbeam.trainer.metrics.choice_ranking import RANKINGS
from transbeam.trainer.metrics.confidence_intervals import Interval
from transbeam.trainer.pages.svg_curves import Curve, curves
from transbeam.trainer.tasks.task_results import TaskResult, shots_title


def format_table(results: Sequence[TaskResult]) -> str:
    """Formats results as text: a line for each task and score, a column for each k.

    Example:
    >>> result = TaskResult(
    ...     task="sums", kind="choice", shots=4, units=20,
    ...     scores={"accuracy": Interval(0.75, 0.55, 0.95)}, baselines={"chance": 0.25},
    ... )
    >>> print(format_table([result]))
    task  score     4 shots              questions  chance
    sums  accuracy  0.750 (0.550-0.950)         20   0.250
    """
    shots = sorted({result.shots for result in results})
    baselines = list(dict.fromkeys(b for result in results for b in result.baselines))
    heading = ["task", "score", *map(shots_title, shots), "questions"]
    rows = [[*heading, *(name.replace("_", " ") for name in baselines)]]
    for task, of in _by_task(results).items():
        by_shots = {result.shots: result for result in of}
        others = [_number(of[0].baselines.get(name)) for name in baselines]
        for name in of[0].scores:
            values = [
                _score(by_shots[k].scores[name]) if k in by_shots else "" for k in shots
            ]
            rows.append([task, name, *values, f"{of[0].units:,}", *others])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    numbers = len(heading) - 1  # the first column of numbers alone
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place >= numbers else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def format_first_score(result: TaskResult) -> str:
    """Formats the first score of a result, for a progress message.

    Example:
    >>> format_first_score(
    ...     TaskResult(
    ...         task="sums", kind="choice", shots=1, units=20,
    ...         scores={"accuracy": Interval(0.75, 0.55, 0.95)},
    ...     )
    ... )
    'sums, 1 shot: accuracy 0.750 (0.550-0.950)'
    """
    name, interval = next(iter(result.scores.items()))
    return f"{result.title}: {name} {_score(interval)}"


def tasks_page(name: str, tasks: TaskFileConfig, results: Sequence[TaskResult]) -> str:
    """Renders the page.

    Args:
        name: The name of the run.
        tasks: The tasks.
        results: Their results.
    """
    return render(
        Path(__file__).parent / "templates" / "tasks.html",
        title=f"Tasks {tasks.name} of {name}",
        seed=tasks.seed,
        parts=[
            {
                "title": task,
                "kind": of[0].kind,
                "picture": _picture(task, of),
                "rows": list(_rows(of)),
                "baselines": _baselines(of[0].baselines),
                "left_out": of[0].left_out,
                "notes": {r.title: r.notes for r in of if r.notes},
            }
            for task, of in _by_task(results).items()
        ],
        rankings=RANKINGS,
    )


def _by_task(results: Sequence[TaskResult]) -> dict[str, list[TaskResult]]:
    found: dict[str, list[TaskResult]] = {}
    for result in results:
        found.setdefault(result.task, []).append(result)
    return found


def _rows(results: Sequence[TaskResult]) -> Iterator[list[str]]:
    for result in results:
        for name, of in result.scores.items():
            yield [
                str(result.shots),
                name,
                _number(of.score),
                _interval(of),
                f"{result.units:,}",
                duration(result.seconds),
            ]


def _baselines(baselines: Mapping[str, float]) -> dict[str, str]:
    return {name.replace("_", " "): _number(x) for name, x in baselines.items()}


def _picture(task: str, results: Sequence[TaskResult]) -> Markup:
    """Draws each score against the number of shots; empty for one number of shots."""
    if len(results) < 2:
        return Markup()
    lines = [
        Curve(name, [(float(r.shots), r.scores[name].score) for r in results], True)
        for name in results[0].scores
    ]
    chance = results[0].baselines.get("chance")
    return curves(
        lines,
        f"scores of {task} against the number of shots",
        None if chance is None else ("chance", chance),
        x_label="shots",
    )


def _number(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) < 100:
        return f"{value:.3f}"
    return f"{value:,.1f}" if abs(value) < 1e6 else f"{value:.3g}"


def _interval(of: Interval) -> str:
    return f"{_number(of.low)}-{_number(of.high)}"


def _score(of: Interval) -> str:
    return f"{_number(of.score)} ({_interval(of)})"
