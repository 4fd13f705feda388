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

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transbeam
from transbeam.configs.base.atomic_files import write_atomically, write_json, writing
from transbeam.configs.base.errors import UserError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.model_files import training_stage
from transbeam.configs.loader.run_folder import fingerprint, lock, save_config
from transbeam.configs.loader.sweep import Sweep, load_sweep
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.signal_handlers import handling
from transbeam.pipeline.records.epochs import settle_steps
from transbeam.pipeline.stage import data_inputs, data_stage, finished_data
from transbeam.trainer.base.training_stage import training_inputs
from transbeam.trainer.pages.sweep_page import sweep_page

_INTERRUPTED = 130
_MOST_LISTED = 10  # failed runs


@dataclass(frozen=True)
class Point:
    """A run of a sweep.

    Attributes:
        folder: The run's folder.
        replaced: This run's overrides from the grid, as `--set` takes them.
        overrides: The overrides common to all runs, then this run's.
        config: The resulting configuration.
    """

    folder: Path
    replaced: tuple[str, ...]
    overrides: tuple[str, ...]
    config: RunConfig


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
        outcomes = {p.folder: _outcome(p) for p in points if _is_finished(p)}
        for number, point in enumerate(points, start=1):
            console.heading(f"{number} of {len(points)}: {' '.join(point.replaced)}")
            _share_records(point, points[: number - 1])
            error = _run(plan, point, console)
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
        yield Point(folder / name, replaced, overrides, config)


def _run(plan: Sweep, point: Point, console: Console) -> str | None:
    """Makes the records and trains the model of a run; returns the error on failure.

    Each stage runs in its own process, which frees all memory at its end. A stage that
    is already done is skipped.
    """
    # -P: modules are not searched for in the user's working directory.
    command = [sys.executable, "-P", "-m", "transbeam"]
    for stage in ("data", "train"):
        words = [*command, stage, str(plan.base), "--run", str(point.folder)]
        for override in point.overrides:
            words += ["--set", override]
        code, output = _run_command([*words, "--json", *["--quiet"] * console.quiet])
        if code == _INTERRUPTED:
            raise KeyboardInterrupt
        if code:
            return f"{stage} ended with exit code {code}: {_reason(output)}"
    return None


def _reason(output: str) -> str:
    """Reads the error of a failed command from the JSON that it printed last.

    Example:
    >>> _reason('{"error": "corpus.txt: there is no such file."}')
    'corpus.txt: there is no such file.'
    >>> _reason("")
    'it did not say why'
    """
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(output)["error"])
    return "it did not say why"


def _run_command(words: Sequence[str]) -> tuple[int, str]:
    """Runs a command and waits for its exit, also after a signal to stop.

    The command receives Ctrl-C directly, and SIGTERM from this process; on either
    signal, a training saves a checkpoint before it exits, which takes time.

    Returns:
        The command's exit code and its stdout.
    """
    with _passing_on_sigterm() as pass_on_to:
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, encoding="utf-8", env=_environment()
        )
        try:
            pass_on_to(process)
            output, _ = process.communicate()
        except KeyboardInterrupt:
            process.communicate()
            raise
    return process.returncode, output


def _environment() -> dict[str, str]:
    """This process's environment, with our `transbeam` first on `PYTHONPATH`."""
    home = str(Path(transbeam.__path__[0]).parent)
    others = os.environ.get("PYTHONPATH")
    path = home if others is None else f"{home}{os.pathsep}{others}"
    return {**os.environ, "PYTHONPATH": path}


@contextmanager
def _passing_on_sigterm() -> Generator[Callable[[subprocess.Popen], None], None, None]:
    """Yields a function that sets the process to which SIGTERM is forwarded.

    A SIGTERM that arrives before the process is set is forwarded when it is set.
    """
    started: subprocess.Popen | None = None
    is_stopped = False

    def handle(number: int, frame: Any) -> None:
        nonlocal is_stopped
        is_stopped = True
        if started is not None:
            started.terminate()
            raise KeyboardInterrupt

    def pass_on_to(process: subprocess.Popen) -> None:
        nonlocal started
        started = process
        if is_stopped:
            handle(signal.SIGTERM, None)

    with handling(handle, signal.SIGTERM):
        yield pass_on_to


def _share_records(point: Point, before: Sequence[Point]) -> None:
    """Links the records of an earlier run that has the same data inputs, if any."""
    inputs, data = data_inputs(point.config), data_stage(point.folder).path
    for other in before:
        finished = other.folder / "data/stage.json"
        same = data_inputs(other.config) == inputs
        if not same or not finished.is_file() or data.exists():
            continue
        # Renamed into place: a partial copy would pass for a finished stage.
        temporary = point.folder / ".data.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        with writing(data):
            shutil.copytree(other.folder / "data", temporary, copy_function=_link)
            save_config(temporary, point.config)
            temporary.rename(data)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # on file systems without hard links
        shutil.copy2(source, target)


def _is_finished(point: Point) -> bool:
    """Returns whether a run is trained with the inputs of its configuration.

    False on any error: the run's commands will then report it.
    """
    stage = training_stage(point.folder)
    if not (stage.path / "stage.json").is_file():
        return False
    with suppress(UserError, OSError):
        made = finished_data(point.config, point.folder)
        config = settle_steps(point.config, point.folder / "data")
        inputs = training_inputs(config, made["records_sha256"], stage.inputs())
        return stage.result_if_done(inputs) is not None
    return False


def _outcome(point: Point, error: str | None = None) -> dict[str, Any]:
    """The sweep's entry for a run: overrides, error, loss, scores, cost."""
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
