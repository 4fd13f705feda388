"""States of a run's stages: what is finished, since when, and what makes the rest."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import UserError
from transbeam.configs.loader.model_files import IMPORTED
from transbeam.configs.loader.run_folder import Stage
from transbeam.serving.studio.run_results.checked_json import JsonFields, read_fields

DATA, TRAINING, EXPORT, PHONE = "data", "training", "export", "phone"
EVALUATION, ANALYSIS = "evaluation", "analysis"
# In the order in which a run is made; each is followed by the run's folder.
COMMANDS: Mapping[str, str] = {
    DATA: "transbeam data",
    TRAINING: "transbeam train",
    EVALUATION: "transbeam evaluate",
    EXPORT: "transbeam export",
    PHONE: "transbeam export --target phone",
    ANALYSIS: "transbeam analyze",
}
FINISHED, UNFINISHED, MISSING, DAMAGED = "finished", "unfinished", "missing", "damaged"
STATES = (FINISHED, UNFINISHED, MISSING, DAMAGED, IMPORTED)


@dataclass(frozen=True, kw_only=True)
class StageState:
    """The state of a stage.

    Attributes:
        name: The stage's name, which is that of its folder.
        state: One of `STATES`.
        command: The command line that makes it, or continues it.
        summary: The sentence that the command printed at its end.
        seconds: The time of a training; None for other stages, which record none.
        peak_memory_mb: The largest memory of its process.
        finished: The time of its last file, in ISO 8601 and UTC.
        error: The damage.
    """

    name: str
    state: str
    command: str
    summary: str | None = None
    seconds: float | None = None
    peak_memory_mb: float | None = None
    finished: str | None = None
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


def stage_command(folder: Path, name: str) -> str:
    """Returns the command line that makes a stage of a run.

    Example:
    >>> stage_command(Path("runs/demo"), "phone")
    'transbeam export --target phone runs/demo'
    """
    return f"{COMMANDS[name]} {folder}"


def read_result(folder: Path, name: str) -> JsonFields | None:
    """Reads the result of a finished stage; None if it is not finished.

    Args:
        folder: The run's folder.
        name: The stage's name.

    Raises:
        ArtifactError: Its `stage.json` is damaged.
    """
    stage = Stage(folder, name, stage_command(folder, name))
    if not stage.is_finished:
        return None
    return JsonFields(stage.load()["result"], f"{stage.path / 'stage.json'}: result")


def is_imported(result: JsonFields) -> bool:
    """Returns whether a stage was made by `transbeam import`."""
    return result.flag(IMPORTED)


def read_states(folder: Path) -> list[StageState]:
    """Reads the states of all stages of a run, in their order.

    Args:
        folder: The run's folder.
    """
    found = []
    for name in COMMANDS:
        command = stage_command(folder, name)
        try:
            found.append(_read_state(folder, name, command))
        except UserError as error:
            found.append(
                StageState(name=name, state=DAMAGED, command=command, error=str(error))
            )
    return found


def _read_state(folder: Path, name: str, command: str) -> StageState:
    if name == EVALUATION:
        files = sorted((folder / EVALUATION).glob("*/scores.json"))
        return _of_file(name, command, files[0] if files else None)
    if name == ANALYSIS:
        file = folder / ANALYSIS / "analysis.json"
        return _of_file(name, command, file if file.is_file() else None)
    result = read_result(folder, name)
    if result is None:
        is_there = Stage(folder, name, command).exists
        return StageState(
            name=name, state=UNFINISHED if is_there else MISSING, command=command
        )
    return StageState(
        name=name,
        state=IMPORTED if is_imported(result) else FINISHED,
        command=command,
        summary=result.text("summary") if "summary" in result else None,
        seconds=result.number("seconds"),
        peak_memory_mb=result.number("peak_memory_mb"),
        finished=_time(folder / name / "stage.json"),
    )


def _of_file(name: str, command: str, file: Path | None) -> StageState:
    """Returns the state of an evaluation or analysis, which have no `stage.json`."""
    if file is None:
        return StageState(name=name, state=MISSING, command=command)
    of = read_fields(file)
    return StageState(
        name=name,
        state=FINISHED,
        command=command,
        summary=of.text("summary") if "summary" in of else None,
        finished=_time(file),
    )


def _time(file: Path) -> str:
    return datetime.fromtimestamp(int(file.stat().st_mtime), UTC).isoformat()
