"""HTML page of a sweep: a table of its runs, best first, and their loss curves."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transbeam.configs.cli.progress import duration
from transbeam.configs.loader.sweep import Sweep
from transbeam.pipeline.pages.html_templates import render
from transbeam.trainer.loop.metrics_file import read_metrics
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
    lines = _curves(ranked)
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
        curves=len(lines),
        picture=curves(lines, "validation loss of the best runs against the step"),
        titles=["", *plan.grid, "loss", *scores, "parameters", "time", "tokens/s"],
        ended=[(run, _numbers(run, scores)) for run in ranked],
        failed=[run for run in runs if run["error"] is not None],
    )


def _curves(ranked: Sequence[Mapping[str, Any]]) -> list[Curve]:
    lines = []
    for number, run in enumerate(ranked[:_MOST_CURVES], start=1):
        rows = read_metrics(Path(run["run"]) / "training")
        points = [(row["step"], row["val_loss"]) for row in rows if "val_loss" in row]
        lines.append(Curve(f"no. {number}", points, dots=len(points) <= _MOST_DOTS))
    return lines


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
