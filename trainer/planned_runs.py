"""Runs planned by a sweep or a suite: each is made by the commands of its stages."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transbeam
from transbeam.configs.base.atomic_files import writing
from transbeam.configs.base.errors import UserError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.model_files import training_stage
from transbeam.configs.loader.run_folder import save_config
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.signal_handlers import handling
from transbeam.pipeline.records.epochs import settle_steps
from transbeam.pipeline.stage import data_inputs, data_stage, finished_data
from transbeam.trainer.base.training_stage import training_inputs

_INTERRUPTED = 130


@dataclass(frozen=True)
class PlannedRun:
    """A run of a sweep or a suite.

    Attributes:
        folder: The run's folder.
        file: The file of its configuration, as the commands take it.
        overrides: Overrides of the configuration, as `--set` takes them.
        config: The resulting configuration.
    """

    folder: Path
    file: Path
    overrides: tuple[str, ...]
    config: RunConfig


def make_run(run: PlannedRun, console: Console) -> str | None:
    """Makes the records and trains the model of a run; returns the error on failure.

    A stage that is already done is skipped.
    """
    for stage in ("data", "train"):
        if error := run_stage(run, console, stage):
            return error
    return None


def run_stage(run: PlannedRun, console: Console, *words: str) -> str | None:
    """Runs a command of a run in its own process; returns the error on failure.

    A process of its own frees all memory at its end.

    Args:
        run: The run.
        console: Decides how much the command prints.
        words: The command's name and further arguments.

    Raises:
        KeyboardInterrupt: The user stopped the command.
    """
    stage, *others = words
    # -P: modules are not searched for in the user's working directory.
    command = [sys.executable, "-P", "-m", "transbeam", stage, str(run.file)]
    command += ["--run", str(run.folder), *others]
    for override in run.overrides:
        command += ["--set", override]
    code, output = run_command([*command, "--json", *["--quiet"] * console.quiet])
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


def run_command(words: Sequence[str]) -> tuple[int, str]:
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


def share_records(run: PlannedRun, before: Sequence[PlannedRun]) -> None:
    """Links the records of an earlier run that has the same data inputs, if any."""
    inputs, data = data_inputs(run.config), data_stage(run.folder).path
    for other in before:
        finished = other.folder / "data/stage.json"
        same = data_inputs(other.config) == inputs
        if not same or not finished.is_file() or data.exists():
            continue
        # Renamed into place: a partial copy would pass for a finished stage.
        temporary = run.folder / ".data.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        with writing(data):
            shutil.copytree(other.folder / "data", temporary, copy_function=_link)
            save_config(temporary, run.config)
            temporary.rename(data)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # on file systems without hard links
        shutil.copy2(source, target)


def is_trained(run: PlannedRun) -> bool:
    """Returns whether a run is trained with the inputs of its configuration.

    False on any error: the run's commands will then report it.
    """
    stage = training_stage(run.folder)
    if not (stage.path / "stage.json").is_file():
        return False
    with suppress(UserError, OSError):
        made = finished_data(run.config, run.folder)
        config = settle_steps(run.config, run.folder / "data")
        inputs = training_inputs(config, made["records_sha256"], stage.inputs())
        return stage.result_if_done(inputs) is not None
    return False


def training_outcome(run: PlannedRun) -> dict[str, Any]:
    """Loss, scores and cost of a trained run, for the table of its plan."""
    result = training_stage(run.folder).load()["result"]
    evaluation = result["evaluation"]
    scores = {name: of["score"] for name, of in evaluation["scores"].items()}
    return {
        "loss": evaluation["loss"],
        "scores": scores,
        "parameters": result["parameters"],
        "seconds": result["seconds"],
        "tokens_per_second": result["tokens_per_second"],
    }
