"""The results of the page's runs, panel by panel, and their logs, records and files."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from transbeam.configs.base.errors import UserError
from transbeam.serving.base.run_records import Split
from transbeam.serving.studio.run_facts import RunFacts
from transbeam.serving.studio.run_results.analysis_results import (
    read_analysis,
    read_sweep,
)
from transbeam.serving.studio.run_results.data_results import read_data
from transbeam.serving.studio.run_results.evaluation_results import read_evaluations
from transbeam.serving.studio.run_results.export_results import read_exports
from transbeam.serving.studio.run_results.head_history import read_head_history
from transbeam.serving.studio.run_results.result_files import read_file
from transbeam.serving.studio.run_results.sample_records import read_samples
from transbeam.serving.studio.run_results.stage_states import (
    ANALYSIS,
    DATA,
    EVALUATION,
    EXPORT,
    TRAINING,
    read_states,
    stage_command,
)
from transbeam.serving.studio.run_results.training_log import read_log, read_training
from transbeam.serving.studio.studio_error import StudioError

Reader = Callable[[Path], dict[str, Any] | None]

# By name the reader of each panel, and the stage whose command makes it. The page says
# nothing of heads that a training did not analyze, or of a sweep that a run is not in.
PANELS: Mapping[str, tuple[Reader, str | None]] = {
    "data": (read_data, DATA),
    "training": (read_training, TRAINING),
    "heads": (read_head_history, None),
    "evaluation": (read_evaluations, EVALUATION),
    "exports": (read_exports, EXPORT),
    "analysis": (read_analysis, ANALYSIS),
    "sweep": (read_sweep, None),
}

_Found = TypeVar("_Found")


class RunResults:
    """The results of some runs.

    Every method raises `StudioError` if there is no such run, or if a file cannot be
    read.

    Args:
        find: Returns the facts of a run by its name.
    """

    def __init__(self, find: Callable[[str], RunFacts]):
        self._find = find

    def results(self, run: str) -> dict[str, Any]:
        """Returns all panels of a run; see `read_run_results`."""
        return read_run_results(self._find(run).folder, run)

    def log(self, run: str, after: int, file: str) -> dict[str, Any]:
        """Returns new lines of a training's log; see `read_log`."""
        return _checked(lambda: read_log(self._find(run).folder, after, file))

    def records(self, run: str, split: Split, first: int, count: int) -> dict[str, Any]:
        """Returns some records; see `read_samples`."""
        facts = self._find(run)
        labels = getattr(facts.config.objective, "labels", ())
        found = _checked(
            lambda: read_samples(facts.folder, labels, split, first, count)
        )
        return {"split": split, "first": first, "records": found}

    def file(self, run: str, name: str) -> tuple[bytes, str]:
        """Returns the content and media type of a picture or report."""
        return _checked(lambda: read_file(self._find(run).folder, name))


def _checked(read: Callable[[], _Found]) -> _Found:
    try:
        return read()
    except UserError as error:
        raise StudioError(str(error)) from None


def read_run_results(folder: Path, name: str) -> dict[str, Any]:
    """Reads what the stages of a run wrote.

    Args:
        folder: The run's folder.
        name: The run's name on the page.

    Returns:
        A JSON object, see `schemas.RUN_RESULTS`. Each panel has `found`, or `error` if
        its files are damaged; if both are null, `command` makes it.
    """
    return {
        "run": name,
        "stages": [state.as_json() for state in read_states(folder)],
        **{
            panel: _read_panel(read, folder, stage)
            for panel, (read, stage) in PANELS.items()
        },
    }


def _read_panel(read: Reader, folder: Path, stage: str | None) -> dict[str, Any]:
    command = stage and stage_command(folder, stage)
    try:
        return {"found": read(folder), "error": None, "command": command}
    except (UserError, OSError) as error:
        return {"found": None, "error": str(error), "command": command}
