"""`transbeam sweep`: a run for each combination of values, and one page about them.

The sweep's folder contains:

    1f3a09c2/ ...   one run folder each, named by a hash of its overrides
    sweep.json      the overrides and results of each run
    sweep.html      the same as a table and a chart

A finished run is not repeated, so an interrupted sweep resumes; if a value is added to
the grid later, only the runs with this value are made. Runs with identical records
share the files. A failed run does not stop the others; the sweep fails after the last
run.
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transbeam.configs.base.atomic_files import write_atomically, write_json, writing
from transbeam.configs.base.errors import UserError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.run_folder import fingerprint, lock
from transbeam.configs.loader.sweep import Sweep, load_sweep
from transbeam.configs.loader.yaml_config import load_run
from transbeam.trainer.pages.sweep_page import sweep_page
from transbeam.trainer.planned_runs import (
    PlannedRun,
    is_trained,
    make_run,
    share_records,
    training_outcome,
)

_MOST_LISTED = 10  # failed runs


@dataclass(frozen=True)
class Point(PlannedRun):
    """A run of a sweep.

    Attributes:
        replaced: This run's overrides from the grid, as `--set` takes them.
    """

    replaced: tuple[str, ...]


def sweep(file: Path, folder: Path | None, console: Console) -> dict[str, Any]:
    """Runs the unfinished runs of a sweep, and reports on all of them.

    Args:
        file: The sweep's YAML.
        folder: Folder of the sweep's runs; by default, `runs/` and the sweep's name.
        console: Prints progress and the result.

    Returns:
        `runs`, in the order of the grid; `best`, the run with the lowest validation
        loss; and `page`.

    Raises:
        UserError: The sweep file is invalid, a combination is invalid, or runs failed;
            if runs failed, all other runs are finished, and the page lists all runs.
        KeyboardInterrupt: The user stopped the sweep.
    """
    plan = load_sweep(file)
    folder = folder or Path("runs", plan.name)
    # All combinations are checked before the first is run.
    points = list(_points(plan, folder))
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with lock(folder):
        outcomes = {p.folder: _outcome(p) for p in points if is_trained(p)}
        for number, point in enumerate(points, start=1):
            console.heading(f"{number} of {len(points)}: {' '.join(point.replaced)}")
            share_records(point, points[: number - 1])
            error = make_run(point, console)
            if error is not None:
                console.warn(f"{point.folder}: failed, see above; the sweep goes on")
            outcomes[point.folder] = _outcome(point, error)
            found = [outcomes[p.folder] for p in points if p.folder in outcomes]
            write_json(folder / "sweep.json", {"name": plan.name, "runs": found})
            write_atomically(folder / "sweep.html", sweep_page(plan, found))
    page = folder / "sweep.html"
    good = [run for run in found if run["error"] is None]
    best = min(good, key=lambda run: run["loss"], default=None)
    if best is not None:
        console.result(
            f"{len(good)} of {len(found)} runs in {folder}, compared in {page}; the "
            f"lowest validation loss, {best['loss']:.3f}, has "
            f"{' '.join(best['replaced'])}"
        )
    if len(good) < len(found):
        raise UserError(_describe_failures(found, page))
    return {"runs": found, "best": best, "page": str(page)}


def _describe_failures(found: Sequence[dict[str, Any]], page: Path) -> str:
    failed = [run for run in found if run["error"] is not None]
    lines = [f"{page}: {len(failed)} of {len(found)} runs failed:"]
    for run in failed[:_MOST_LISTED]:
        text = f"{' '.join(run['replaced'])}: {run['error']}"
        lines.append(textwrap.indent(text, "    ")[2:])
    if len(failed) > _MOST_LISTED:
        lines.append(f"  and {len(failed) - _MOST_LISTED} more, which the page lists")
    lines.append("The same command tries these again, and keeps what is finished.")
    return "\n".join(lines)


def _points(plan: Sweep, folder: Path) -> Iterator[Point]:
    for replaced in plan.points():
        overrides = (*plan.fixed, *replaced)
        config = load_run(plan.base, overrides, with_model=True)
        # A hash of the overrides, so that a run keeps its folder when the grid grows.
        name = fingerprint({"base": str(plan.base), "set": list(overrides)})[:8]
        yield Point(folder / name, plan.base, overrides, config, replaced)


def _outcome(point: Point, error: str | None = None) -> dict[str, Any]:
    """The sweep's entry for a run: overrides, error, loss, scores, cost."""
    outcome = {
        "replaced": list(point.replaced),
        "run": str(point.folder),
        "error": error,
    }
    return outcome if error is not None else {**outcome, **training_outcome(point)}
