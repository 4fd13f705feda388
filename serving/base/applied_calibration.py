"""The calibration that an export applies: a temperature and thresholds.

`transbeam evaluate` fits them to the predictions of a run's model, and writes them to
the run's folder. An export applies what its configuration asks for, and has a copy of
the numbers beside its files.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.calibration_file import (
    CALIBRATION,
    Calibration,
    read_calibration,
    run_calibration,
    write_calibration,
)
from transbeam.configs.schema.run import RunConfig

_IN_SAVED_MODEL = f"assets.extra/{CALIBRATION}"


@dataclass(frozen=True)
class AppliedCalibration:
    """The numbers that an export applies.

    Attributes:
        temperature: The number by which the logits of classes are divided.
        source: The fitted calibration; None if nothing is applied.
    """

    temperature: float = 1.0
    source: Calibration | None = None

    def as_inputs(self) -> dict[str, Any]:
        """Returns the numbers on which the exported files depend, by their keys."""
        if self.source is None:
            return {}
        return {"calibration.temperature": self.temperature}

    def write(self, path: Path) -> None:
        """Writes the numbers to a calibration file, if there are any."""
        if self.source is not None:
            applied = replace(self.source, temperature=self.temperature)
            write_calibration(path, applied)

    def write_to_saved_model(self, version: Path) -> None:
        """Writes the numbers to a version folder of a SavedModel, if there are any."""
        self.write(version / _IN_SAVED_MODEL)

    def __str__(self) -> str:
        """Describes the numbers; empty if nothing is applied."""
        if self.source is None:
            return ""
        if self.temperature == 1:
            return "no temperature, as none was better on the validation split"
        return f"logits divided by the temperature {self.temperature:.4g}"


NOT_CALIBRATED = AppliedCalibration()


def find_applied_calibration(
    config: RunConfig, run_folder: Path, weights_sha256: str, command: str
) -> AppliedCalibration:
    """Returns the calibration that an export of a run applies.

    Args:
        config: The run.
        run_folder: Its folder.
        weights_sha256: SHA-256 of the weights file that is exported.
        command: The command that fits a calibration, for error messages.

    Raises:
        ArtifactError: The configuration asks for fitted numbers, and there are none, or
            those of other weights.
    """
    if not config.export.fitted_temperature:
        return NOT_CALIBRATED
    path, key = run_calibration(run_folder), "export.fitted_temperature"
    calibration = read_calibration(path, f"Fit it again: {command}")
    if calibration is None:
        raise ArtifactError(
            f"{path}: there is no such file, and {key} needs it. Fit a calibration to "
            f"the validation split: {command}"
        )
    if calibration.weights_sha256 != weights_sha256:
        raise ArtifactError(
            f"{path}: was fitted to other weights: their SHA-256 is "
            f"{calibration.weights_sha256[:12]}…, and that of the exported ones "
            f"{weights_sha256[:12]}…. Fit it again: {command}"
        )
    if calibration.temperature is None:
        raise ArtifactError(
            f"{path}: has no temperature, and {key} needs one. Fit it again: {command}"
        )
    return AppliedCalibration(calibration.temperature, calibration)
