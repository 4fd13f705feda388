"""Builds exports in a temporary folder and publishes them atomically on success."""

import shutil
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from transbeam.configs.base.atomic_files import write_json, writing
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.calibration_file import hash_file
from transbeam.configs.loader.run_folder import Stage, save_config
from transbeam.configs.loader.yaml_config import flatten
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.system.memory import peak_memory
from transbeam.serving.base.applied_calibration import (
    AppliedCalibration,
    find_applied_calibration,
)
from transbeam.serving.base.trained_run import (
    WEIGHTS,
    TrainedRun,
    load_trained,
    training_record,
)

PARITY = "parity.json"

WARM_UP_CALLS = 5
TIMED_CALLS = 40

# Makes all files in a folder, given the one they will move to; returns the result.
Make = Callable[[TrainedRun, Path, Path], dict[str, Any]]


def publish(
    invocation: Invocation, stage: Stage, needed: Iterable[Path], make: Make
) -> dict[str, Any]:
    """Exports the trained model of a run, unless its export is up to date.

    Until all files are made and have passed the parity checks, a previous export stays
    in place.

    Args:
        invocation: The run.
        stage: The stage whose folder is written.
        needed: Files that an up-to-date export must have.
        make: Function that makes the files; returns a result with a `summary` and the
            `parity` checks, which are also written to a file.

    Returns:
        The stage's result; if the export is up to date, the previous result with
        `skipped` set to True.

    Raises:
        ArtifactError: There is no trained model of this configuration, the model is
            damaged, or `make` fails.
    """
    config, console = invocation.config, invocation.console
    run_folder = invocation.run_folder
    inputs, calibration = _inputs(invocation)
    result = stage.result_if_done(inputs)
    if result and all(path.exists() for path in needed):
        console.result(f"skipped: the same model is exported to {stage.path} already")
        return {**result, "skipped": True}

    for line in stage.differences(inputs):
        console.say(f"re-exported, because {line}")
    console.say("loading the trained model")
    trained = replace(load_trained(run_folder, config), calibration=calibration)
    if str(calibration):
        console.say(str(calibration))
    building = run_folder / f".{stage.path.name}-building"
    shutil.rmtree(building, ignore_errors=True)
    try:
        with peak_memory() as peak:
            result = make(trained, building, stage.path)
        result["peak_memory_mb"] = peak.megabytes
        if calibration.source is not None:
            result |= calibration.as_inputs()
            result["summary"] += f"; {calibration}"
        write_json(building / PARITY, result["parity"])
        save_config(building, trained.config)
        if moved := stage.begin(inputs):
            console.say(f"the previous export is now in {moved}")
        _move_into(building, stage.path)
        stage.finish(inputs, result)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    console.result(result["summary"])
    return result


def median_ms(call: Callable[[], Any]) -> float:
    """Measures the median duration of a call in milliseconds, after warm-up calls."""
    for _ in range(WARM_UP_CALLS):
        call()
    times = []
    for _ in range(TIMED_CALLS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return round(1000 * statistics.median(times), 3)


def count_bytes(path: Path) -> int:
    """Returns the size of a file, or of all files in a folder, in bytes."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return sum(file.stat().st_size for file in files)


def input_kind(trained: TrainedRun) -> str:
    """Returns the kind of input that the model takes: `image` or `text`."""
    is_image = isinstance(trained.config.objective, ImageObjective)
    return "image" if is_image else "text"


def _inputs(invocation: Invocation) -> tuple[dict[str, Any], AppliedCalibration]:
    """Returns everything that the exported files depend on, and their calibration."""
    run_folder, config = invocation.run_folder, invocation.config
    training = training_record(run_folder, config, invocation.command("train"))
    weights = run_folder / WEIGHTS
    checksum = hash_file(weights) if weights.is_file() else "missing"
    calibration = find_applied_calibration(
        config, run_folder, checksum, invocation.command("evaluate")
    )
    inputs = {
        **flatten(config, "export"),
        "training": training["fingerprint"],
        "weights_sha256": checksum,
        **calibration.as_inputs(),
    }
    return inputs, calibration


def _move_into(building: Path, folder: Path) -> None:
    with writing(folder):
        for source in building.iterdir():
            target = folder / source.name
            if target.is_dir():
                # Left by an export that was killed here, or that is incomplete.
                shutil.rmtree(target)
            source.rename(target)
