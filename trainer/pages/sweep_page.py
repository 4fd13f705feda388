"""HTML page of a sweep: a table of its runs, best first, and their loss curves."""

import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transbeam.configs.base.html_page import page
from transbeam.configs.cli.progress import duration
from transbeam.configs.loader.sweep import Sweep
from transbeam.trainer.loop.metrics_log import read_metrics
from transbeam.trainer.pages.svg_curves import STYLE, Curve, curves, short

_MOST_CURVES = 8
_MOST_DOTS = 30  # more would hide the line
# Sections on which the meaning of the loss depends.
_OF_THE_LOSS = ("data", "tokenizer", "objective")
_STYLE = (
    STYLE
    + """
.scroll { overflow-x: auto } .scroll th { overflow-wrap: normal }
.scroll td { white-space: nowrap } td.number { text-align: right }
.scroll td.error { white-space: pre-wrap; min-width: 24rem }
tr.best td { font-weight: 600 }
svg.curves .c3 { stroke: #8254a6 } svg.curves .c4 { stroke: #2a9d8f }
svg.curves .c5 { stroke: #c2a12b } svg.curves .c6 { stroke: #d1477a }
svg.curves .c7 { stroke: #7a6a5a }
"""
)


def sweep_page(plan: Sweep, runs: Sequence[Mapping[str, Any]]) -> str:
    """Renders the page.

    Args:
        plan: The sweep.
        runs: The entries of `sweep.json` for the runs done so far.
    """
    ended = [run for run in runs if run["error"] is None]
    ranked = sorted(ended, key=lambda run: run["loss"])
    failed = [run for run in runs if run["error"] is not None]
    body = (
        f"<p>{len(runs)} runs of {html.escape(str(plan.base))}"
        f"{_told_fixed(plan.fixed)}{_told_failed(failed)}.</p>"
        f"{_told_what_differs(plan)}"
        f"<section><h2>Validation loss</h2>{_picture(ranked)}</section>"
        "<section><h2>Runs, the least validation loss first</h2>"
        f"<div class='scroll'>{_table(plan, ranked, failed)}</div></section>"
    )
    return page(f"Sweep {plan.name}", body, _STYLE)


def _told_fixed(fixed: Sequence[str]) -> str:
    return f", all with {html.escape(', '.join(fixed))}" if fixed else ""


def _told_failed(failed: Sequence[Mapping[str, Any]]) -> str:
    return f"; {len(failed)} of them failed" if failed else ""


def _told_what_differs(plan: Sweep) -> str:
    """A warning if the sweep varies sections that make losses incomparable."""
    keys = [key for key in plan.grid if key.partition(".")[0] in _OF_THE_LOSS]
    if not keys:
        return ""
    return (
        "<p><strong>Losses of different data, tokenizers or objectives are not of the "
        "same thing</strong>: compare those of runs that have the same "
        f"{html.escape(' and '.join(keys))}, or a score that means the same in all.</p>"
    )


def _picture(ranked: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for number, run in enumerate(ranked[:_MOST_CURVES], start=1):
        rows = read_metrics(Path(run["run"]) / "training")
        points = [(row["step"], row["val_loss"]) for row in rows if "val_loss" in row]
        lines.append(Curve(f"no. {number}", points, dots=len(points) <= _MOST_DOTS))
    told = f"<p>per target; the best {len(lines)}, by their place below</p>"
    return told + curves(lines, "validation loss of the best runs against the step")


def _table(
    plan: Sweep,
    ranked: Sequence[Mapping[str, Any]],
    failed: Sequence[Mapping[str, Any]],
) -> str:
    scores = [
        name
        for name in dict.fromkeys(name for run in ranked for name in run["scores"])
        if name not in ("nats_per_token", "mse")  # which are the loss
    ]
    titles = ["", *plan.grid, "loss", *scores, "parameters", "time", "tokens/s"]
    head = "".join(f"<th scope='col'>{_shown(title)}</th>" for title in titles)
    rows = [_row(number, run, scores) for number, run in enumerate(ranked, start=1)] + [
        f"<tr><td>failed</td>{_values(run)}<td class='error' "
        f"colspan='{len(scores) + 4}'>{html.escape(run['error'])}</td></tr>"
        for run in failed
    ]
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _row(number: int, run: Mapping[str, Any], scores: Sequence[str]) -> str:
    numbers = [
        f"{run['loss']:.4f}",
        *(f"{_number(run['scores'].get(name))}" for name in scores),
        f"{run['parameters']:,}",
        duration(run["seconds"]),
        f"{run['tokens_per_second']:,}",
    ]
    cells = "".join(f"<td class='number'>{cell}</td>" for cell in numbers)
    mark = " class='best'" if number == 1 else ""
    return f"<tr{mark}><td>no. {number}</td>{_values(run)}{cells}</tr>"


def _number(score: float | None) -> str:
    """Formats a score; a missing or non-finite one is a dash."""
    return "–" if score is None or not math.isfinite(score) else short(score)


def _values(run: Mapping[str, Any]) -> str:
    values = (override.partition("=")[2] for override in run["replaced"])
    return "".join(f"<td>{html.escape(value)}</td>" for value in values)


def _shown(title: str) -> str:
    # Allows line breaks at the dots of a long key.
    return html.escape(title.replace("_", " ")).replace(".", ".<wbr>")
