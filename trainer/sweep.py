"""`transbeam sweep`: a run for each combination of values, and one page about them.

    DIR/1f3a09c2/ ...         a run's folder each, named by what it replaces
    DIR/sweep.json            what each replaced and what it reached
    DIR/sweep.html            the same as a table and a picture

A run that is done is not done again, so a sweep that was stopped goes on; a value that
is added later adds its runs. Runs whose records are the same share their files.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.console import Console
from configs.errors import UserError
from configs.files import write_atomically, write_json, writing
from configs.load import load_run
from configs.run import RunConfig
from configs.run_folder import fingerprint, lock
from configs.sweep import Sweep, load_sweep
from pipeline.stage import data_inputs, data_stage
from trainer.stage import training_stage
from trainer.sweep_page import sweep_page


@dataclass(frozen=True)
class Point:
    """A run of a sweep.

    Attributes:
        folder: The run's.
        replaced: Of the grid, as `--set` takes it.
        overrides: These and what all runs have replaced.
        config: What comes of them.
    """

    folder: Path
    replaced: tuple[str, ...]
    overrides: tuple[str, ...]
    config: RunConfig


def sweep(file: Path, folder: Path | None, console: Console) -> dict[str, Any]:
    """Runs what is left of a sweep, and reports on all of it.

    Args:
        file: The sweep's YAML.
        folder: Where its runs go; `runs/` and its name if left out.
        console: Hears what is done.

    Returns:
        `runs`, in the order of the grid, and `best`, of them the one with the least
        validation loss.

    Raises:
        UserError: The file is not right, a combination is refused, or no run ended
            well.
    """
    plan = load_sweep(file)
    folder = folder or Path("runs", plan.name)
    # All combinations are checked before the first is run.
    points = list(_points(plan, folder))
    found = []
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with lock(folder):
        for number, point in enumerate(points, start=1):
            told = " ".join(point.replaced)
            console.heading(f"{number} of {len(points)}: {told}")
            found.append(_run(plan, point, points[: number - 1], console))
            _write(plan, folder, found)
    good = [run for run in found if run["error"] is None]
    if not good:
        raise UserError(f"{folder}: no run of the sweep ended well; see above")
    best = min(good, key=lambda run: run["loss"])
    page = folder / "sweep.html"
    console.result(
        f"{len(good)} of {len(found)} runs in {folder}, compared in {page}; the least "
        f"validation loss, {best['loss']:.3f}, has {' '.join(best['replaced'])}"
    )
    return {"runs": found, "best": best, "page": str(page)}


def _points(plan: Sweep, folder: Path) -> Iterator[Point]:
    for replaced in plan.points():
        overrides = (*plan.fixed, *replaced)
        config = load_run(plan.base, overrides, with_model=True)
        # By what is in it, so that a run keeps its folder when the grid grows.
        name = fingerprint({"base": str(plan.base), "set": list(overrides)})[:8]
        yield Point(folder / name, replaced, overrides, config)


def _run(
    plan: Sweep, point: Point, before: Sequence[Point], console: Console
) -> dict[str, Any]:
    """Makes the records of a run and trains it, each in a process of its own."""
    _share_records(point, before)
    error = None
    for room, stage in (("pipeline", "data"), ("trainer", "train")):
        words = [sys.executable, "-m", room, stage, str(plan.base)]
        words += ["--run", str(point.folder)]
        for override in point.overrides:
            words += ["--set", override]
        done = subprocess.run(words, stderr=None, stdout=subprocess.DEVNULL)
        if done.returncode in (-2, 130):
            raise KeyboardInterrupt
        if done.returncode:
            error = f"{stage} ended with exit code {done.returncode}"
            console.warn(f"{point.folder}: {error}; the sweep goes on")
            break
    return _outcome(point, error)


def _share_records(point: Point, before: Sequence[Point]) -> None:
    """Takes the records of an earlier run that were made by the same keys."""
    inputs = data_inputs(point.config)
    for other in before:
        finished = other.folder / "data/stage.json"
        same = data_inputs(other.config) == inputs
        if same and finished.is_file() and not data_stage(point.folder).path.exists():
            shutil.copytree(
                other.folder / "data", point.folder / "data", copy_function=_link
            )
            return


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # on file systems without
        shutil.copy2(source, target)


def _outcome(point: Point, error: str | None) -> dict[str, Any]:
    """What there is to say of a run."""
    outcome = {
        "replaced": list(point.replaced),
        "run": str(point.folder),
        "error": error,
    }
    if error is not None:
        return outcome
    result = training_stage(point.folder).load()["result"]
    evaluation = result["evaluation"]
    scores = {name: of["score"] for name, of in evaluation["scores"].items()}
    return {
        **outcome,
        "loss": evaluation["loss"],
        "scores": scores,
        "parameters": result["parameters"],
        "seconds": result["seconds"],
        "tokens_per_second": result["tokens_per_second"],
    }


def _write(plan: Sweep, folder: Path, found: Sequence[dict[str, Any]]) -> None:
    write_json(folder / "sweep.json", {"name": plan.name, "runs": list(found)})
    write_atomically(folder / "sweep.html", sweep_page(plan, found))
