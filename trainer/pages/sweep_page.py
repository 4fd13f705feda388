"""HTML page of a sweep: a table of its runs, best first, and their curves."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from transbeam.configs.cli.progress import duration
from transbeam.configs.loader.sweep import Sweep
from transbeam.pipeline.pages.html_templates import render
from transbeam.trainer.loop.metrics_file import read_metrics
from transbeam.trainer.pages.score_curves import (
    VALIDATION,
    Rows,
    points,
    score_names,
)
from transbeam.trainer.pages.svg_curves import Curve, curves, short

_MOST_CURVES = 8
_MOST_DOTS = 30  # more would hide the line
# Sections on which the meaning of the loss depends.
_OF_THE_LOSS = ("data", "tokenizer", "objective")


def sweep_page(plan: Sweep, runs: Sequence[Mapping[str, Any]]) -> str:
    """Renders the page.

    Args:
        plan: The sweep.
        runs: The entries of `sweep.json` for the runs done so far.
    """
    ended = [run for run in runs if run["error"] is None]
    ranked = sorted(ended, key=lambda run: run["loss"])
    logs = [
        read_metrics(Path(run["run"]) / "training") for run in ranked[:_MOST_CURVES]
    ]
    scores = [
        name
        for name in dict.fromkeys(name for run in ranked for name in run["scores"])
        if name not in ("nats_per_token", "mse")  # which are the loss
    ]
    return render(
        Path(__file__).parent / "templates" / "sweep.html",
        title=f"Sweep {plan.name}",
        plan=plan,
        count=len(runs),
        of_the_loss=[k for k in plan.grid if k.partition(".")[0] in _OF_THE_LOSS],
        curves=len(logs),
        pictures=_pictures(logs),
        titles=["", *plan.grid, "loss", *scores, "parameters", "time", "tokens/s"],
        ended=[(run, _numbers(run, scores)) for run in ranked],
        failed=[run for run in runs if run["error"] is not None],
    )


def _pictures(logs: Sequence[Rows]) -> list[tuple[str, Markup]]:
    """Charts of the loss and each score of the best runs, with their headings.

    Args:
        logs: The logs of the best runs, best first.
    """
    scores = dict.fromkeys(name for rows in logs for name in score_names(rows))
    pictures = []
    for name in ("loss", *scores):
        title = name.replace("_", " ")
        for when, key in (("Validation", VALIDATION + name), ("Training", name)):
            picture = _picture(logs, key, f"{when} {title}")
            if picture:
                pictures.append((f"{when} {title}", picture))
    return pictures


def _picture(logs: Sequence[Rows], name: str, what: str) -> Markup:
    lines = []
    for number, rows in enumerate(logs, start=1):
        found = points(rows, name)
        dots = name.startswith(VALIDATION) and len(found) <= _MOST_DOTS
        lines.append(Curve(f"no. {number}", found, dots=dots))
    return curves(lines, f"{what} of the best runs against the step")


def _numbers(run: Mapping[str, Any], scores: Sequence[str]) -> list[str]:
    return [
        f"{run['loss']:.4f}",
        *(_number(run["scores"].get(name)) for name in scores),
        f"{run['parameters']:,}",
        duration(run["seconds"]),
        f"{run['tokens_per_second']:,}",
    ]


def _number(score: float | None) -> str:
    """Formats a score; a missing or non-finite one is a dash."""
    return "–" if score is None or not math.isfinite(score) else short(score)
