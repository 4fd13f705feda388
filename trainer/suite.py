"""`transbeam suite`: runs on several tasks, one table, one average.

The suite's folder contains:

    mrpc/ rte/ ...   one run folder each, with `row.yaml`, its whole configuration
    suite.json       the scores of each row, the average, the share of a teacher's
    suite.html       the same as a page

A row whose files are not there is left out, and named. A finished row is not repeated,
and a row that was stopped resumes, so the same command continues an interrupted suite.
A failed row does not stop the others; the suite fails after the last row.

References:
    - [Wang et al., 2018](https://arxiv.org/abs/1804.07461) (GLUE: the average is the
      mean over tasks of the mean of a task's scores)
"""

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transbeam.configs.base.atomic_files import write_atomically, write_json, writing
from transbeam.configs.base.errors import DataError, UserError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.model_files import training_stage
from transbeam.configs.loader.run_folder import fingerprint, lock
from transbeam.configs.loader.suite import Row, load_suite
from transbeam.configs.loader.yaml_config import flatten
from transbeam.configs.loader.yaml_dump import dump_run
from transbeam.pipeline.sources.corpus_files import missing_paths
from transbeam.pipeline.stage import data_stage
from transbeam.trainer.pages.suite_page import suite_page
from transbeam.trainer.planned_runs import (
    PlannedRun,
    is_trained,
    make_run,
    run_stage,
    training_outcome,
)
from transbeam.trainer.suite_results import (
    RESULTS,
    collect_results,
    format_table,
    read_entries,
    read_teacher,
)

_ROW_FILE = "row.yaml"
_MOST_PATHS = 3


@dataclass(frozen=True)
class RowRun(PlannedRun):
    """The run of a suite's row.

    Attributes:
        row: The row.
    """

    row: Row


@dataclass(frozen=True)
class SuiteOptions:
    """Options of a suite.

    Attributes:
        init: A run whose model all rows begin with, in place of the file's.
        folder: Folder of the runs; by default `runs/` and the suite's name, with that
            of `init`.
        teacher: The folder of another suite, of whose scores the shares are shown.
        overrides: Overrides of the runs of all rows, as `--set` takes them.
    """

    init: Path | None = None
    folder: Path | None = None
    teacher: Path | None = None
    overrides: tuple[str, ...] = ()


def suite(file: Path, options: SuiteOptions, console: Console) -> dict[str, Any]:
    """Makes the unfinished rows of a suite, and reports on all of them.

    Args:
        file: The suite's YAML.
        options: The options.
        console: Prints progress and the table.

    Returns:
        The content of `suite.json`, and `page`.

    Raises:
        UserError: The file or the configuration of a row is invalid, no row has its
            files, the teacher's suite has no row in common, or rows failed; if rows
            failed, all other rows are finished, and the page lists all rows.
        KeyboardInterrupt: The user stopped the suite.
    """
    initial = () if options.init is None else (f"model.init_from={options.init}",)
    plan = load_suite(file, (*options.overrides, *initial))
    named = plan.name if options.init is None else f"{plan.name}-{options.init.name}"
    folder = options.folder or Path("runs", named)
    missing = {row.name: list(_missing(row)) for row in plan.rows}
    if all(missing.values()):
        raise _nothing_there(file, missing)
    teacher = (
        None
        if options.teacher is None
        else read_teacher(options.teacher, [row.name for row in plan.rows], plan.name)
    )
    page = folder / "suite.html"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with lock(folder):
        before = read_entries(folder)
        found = {
            row.name: {"name": row.name, "missing": missing[row.name]}
            for row in plan.rows
            if missing[row.name]
        }
        runs = [_planned(row, folder) for row in plan.rows if not missing[row.name]]
        for number, run in enumerate(runs, start=1):
            name = run.row.name
            console.heading(f"{number} of {len(runs)}: {name}")
            found[name] = _entry(run, before.get(name), console)
            if found[name]["error"] is not None:
                console.warn(f"{name}: failed, see above; the suite goes on")
            results = collect_results(plan, found, teacher)
            write_json(folder / RESULTS, results)
            write_atomically(page, suite_page(results))
    results = collect_results(plan, found, teacher)
    console.result("\n".join([*format_table(results), f"written to {page}"]))
    failed = [row for row in results["rows"] if row.get("error") is not None]
    if failed:
        lines = [f"  {row['name']}: {row['error']}" for row in failed]
        raise UserError(
            "\n".join([f"{page}: {len(failed)} of {len(runs)} rows failed:", *lines])
            + "\nThe same command tries these again, and keeps what is finished."
        )
    return {**results, "page": str(page)}


def _missing(row: Row) -> Iterator[str]:
    """The paths of a row's sources that match no file."""
    data = row.config.data
    yield from missing_paths(data.source)
    yield from missing_paths(data.validation_source)
    if "test" in row.splits:
        yield from missing_paths(row.config.evaluation.test)


def _nothing_there(file: Path, missing: Mapping[str, Sequence[str]]) -> DataError:
    listed = [
        f"  {name}: {', '.join(paths[:_MOST_PATHS])}" for name, paths in missing.items()
    ]
    return DataError(
        f"{file}: no row has its files (seen from {Path.cwd()}):\n"
        + "\n".join(listed)
        + "\nPut the files of at least one row there, as they are, or change the paths"
    )


def _planned(row: Row, folder: Path) -> RowRun:
    """Writes the file of a row's run."""
    own = folder / row.name
    with writing(own):
        own.mkdir(parents=True, exist_ok=True)
    write_atomically(own / _ROW_FILE, dump_run(row.config))
    return RowRun(own, own / _ROW_FILE, (), row.config, row)


def _entry(
    run: RowRun, before: Mapping[str, Any] | None, console: Console
) -> dict[str, Any]:
    """Makes a row's run and reads its scores, or takes its entry of an earlier call."""
    if before is not None and is_trained(run) and before["made_from"] == _inputs(run):
        console.say("skipped: it is finished")
        return dict(before)
    entry: dict[str, Any] = {
        "name": run.row.name,
        "missing": [],
        "run": str(run.folder),
    }
    error = make_run(run, console)
    if error is None:
        error = _evaluate(run, console)
    if error is None:
        try:
            scores = dict(_scores(run))
        except UserError as wrong:
            error = str(wrong)
    if error is not None:
        return {**entry, "error": error, "made_from": None}
    outcome = training_outcome(run)
    counts = data_stage(run.folder).load()["result"]["counts"]
    return {
        **entry,
        "error": None,
        "scores": scores,
        "mean": statistics.fmean(of["score"] for of in scores.values()),
        "left_out": sum(counts["quarantined"].values()),
        "parameters": outcome["parameters"],
        "seconds": outcome["seconds"],
        "made_from": _inputs(run),
    }


def _inputs(run: RowRun) -> str:
    """A fingerprint of everything that a row's scores depend on."""
    scores = {shown: [s.split, s.name] for shown, s in run.row.scores.items()}
    trained = training_stage(run.folder).load()["fingerprint"]
    return fingerprint(
        {"config": flatten(run.config), "scores": scores, "training": trained}
    )


def _trained_scores(run: RowRun) -> Mapping[str, Any]:
    """The validation scores that the training ended with."""
    return training_stage(run.folder).load()["result"]["evaluation"]["scores"]


def _evaluate(run: RowRun, console: Console) -> str | None:
    """Evaluates the splits whose scores the training has not given."""
    there = _trained_scores(run)
    needed = {
        score.split
        for score in run.row.scores.values()
        if score.split == "test" or score.name not in there
    }
    for split in sorted(needed):
        words = ["--test"] * (split == "test")
        if error := run_stage(run, console, "evaluate", *words):
            return error
    return None


def _scores(run: RowRun) -> Iterator[tuple[str, dict[str, float]]]:
    """Reads the scores that count, each with its interval.

    Raises:
        UserError: A score does not exist, or is not finite.
    """
    by_split: dict[str, dict[str, Any]] = {"validation": {}, "test": {}}
    for split, scores in by_split.items():
        path = run.folder / "evaluation" / split / "scores.json"
        if path.is_file():
            scores.update(json.loads(path.read_text("utf-8"))["scores"])
    # The training's own scores are those of its weights, whenever it was evaluated.
    by_split["validation"].update(_trained_scores(run))
    for shown, score in run.row.scores.items():
        known = by_split[score.split]
        if score.name not in known:
            raise UserError(
                f"scores.{shown}: the run has no score {score.name!r} of "
                f"{score.split}. It has {', '.join(known)}"
            )
        value = known[score.name]
        if value["score"] is None or not math.isfinite(value["score"]):
            raise UserError(f"scores.{shown}: {score.name} is not finite")
        yield shown, dict(value)
