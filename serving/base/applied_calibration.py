"""The calibration that an export applies: a temperature and thresholds.

`transbeam evaluate` fits them to the predictions of a run's model, and writes them to
the run's folder. An export applies what its configuration asks for, and has a copy of
the numbers beside its files.
"""

from collections.abc import Mapping
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
from transbeam.configs.schema.objectives.objective import LabelSetObjective
from transbeam.configs.schema.run import RunConfig

_IN_SAVED_MODEL = f"assets.extra/{CALIBRATION}"


@dataclass(frozen=True)
class AppliedCalibration:
    """The numbers that an export applies.

    Attributes:
        temperature: The number by which the logits of classes are divided.
        thresholds: By label, the smallest probability at which the label is assigned,
            of the probabilities that the export returns; None for the configured one.
        no_answer_threshold: No answer is returned if the no-answer score exceeds the
            score of the answer by more than this; None if the best answer is always
            returned.
        source: The fitted calibration; None if nothing is applied.
    """

    temperature: float = 1.0
    thresholds: Mapping[str, float] | None = None
    no_answer_threshold: float | None = None
    source: Calibration | None = None

    def label_thresholds(self, objective: LabelSetObjective) -> tuple[float, ...]:
        """Returns the threshold of each label, in the order of the labels."""
        if self.thresholds is None:
            return (objective.threshold,) * len(objective.labels)
        return tuple(self.thresholds[label] for label in objective.labels)

    def as_json(self) -> dict[str, Any]:
        """Returns the numbers that are applied, by name."""
        thresholds = None if self.thresholds is None else dict(self.thresholds)
        return {
            "temperature": self.temperature,
            "thresholds": thresholds,
            "no_answer_threshold": self.no_answer_threshold,
        }

    def as_inputs(self) -> dict[str, Any]:
        """Returns what the exported files depend on; empty if nothing is applied."""
        return {} if self.source is None else {"calibration": self.as_json()}

    def write(self, path: Path) -> None:
        """Writes the numbers to a calibration file, if there are any."""
        if self.source is not None:
            applied = replace(
                self.source,
                temperature=self.temperature,
                thresholds=self.thresholds,
                no_answer_threshold=self.no_answer_threshold,
            )
            write_calibration(path, applied)

    def write_to_saved_model(self, version: Path) -> None:
        """Writes the numbers to a version folder of a SavedModel, if there are any."""
        self.write(version / _IN_SAVED_MODEL)

    def __str__(self) -> str:
        """Describes the numbers; empty if nothing is applied."""
        parts = []
        if self.temperature != 1:
            parts.append(f"logits divided by the temperature {self.temperature:.4g}")
        if self.thresholds is not None:
            shown = (f"{label} {x:.3g}" for label, x in self.thresholds.items())
            parts.append(f"thresholds {', '.join(shown)}")
        if self.no_answer_threshold is not None:
            parts.append(f"no-answer threshold {self.no_answer_threshold:.4g}")
        if self.source is not None and not parts:
            parts.append("no temperature, as none was better on the validation split")
        return "; ".join(parts)


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
    names = ("fitted_temperature", "fitted_thresholds")
    keys = [f"export.{name}" for name in names if getattr(config.export, name)]
    if not keys:
        return NOT_CALIBRATED
    path = run_calibration(run_folder)
    fitted = read_calibration(path, f"Fit it again: {command}")
    if fitted is None:
        raise ArtifactError(
            f"{path}: there is no such file, and {' and '.join(keys)} needs it. Fit a "
            f"calibration to the validation split: {command}"
        )
    if fitted.weights_sha256 != weights_sha256:
        raise ArtifactError(
            f"{path}: was fitted to other weights: their SHA-256 is "
            f"{fitted.weights_sha256[:12]}…, and that of the exported ones "
            f"{weights_sha256[:12]}…. Fit it again: {command}"
        )
    applied = AppliedCalibration(source=fitted)
    if config.export.fitted_temperature:
        if fitted.temperature is None:
            raise ArtifactError(
                f"{path}: has no temperature, and export.fitted_temperature needs one. "
                f"Fit it again: {command}"
            )
        applied = replace(applied, temperature=fitted.temperature)
    if config.export.fitted_thresholds:
        return _with_thresholds(applied, fitted, config, path, command)
    return applied


def _with_thresholds(
    applied: AppliedCalibration,
    fitted: Calibration,
    config: RunConfig,
    path: Path,
    command: str,
) -> AppliedCalibration:
    """Adds the fitted thresholds to an applied calibration."""
    objective = config.objective
    if not isinstance(objective, LabelSetObjective):
        if fitted.no_answer_threshold is None:
            raise ArtifactError(
                f"{path}: has no no-answer threshold, and export.fitted_thresholds "
                "needs one: it is fitted if the validation split has questions without "
                f"an answer. Add some, or remove the key; then fit it again: {command}"
            )
        return replace(applied, no_answer_threshold=fitted.no_answer_threshold)
    thresholds = fitted.thresholds or {}
    if thresholds.keys() != set(objective.labels):
        raise ArtifactError(
            f"{path}: has thresholds of the labels {', '.join(thresholds) or 'none'}, "
            f"and those of objective.labels are {', '.join(objective.labels)}. Fit it "
            f"again: {command}"
        )
    scaled = {
        label: _at_temperature(thresholds[label], applied.temperature)
        for label in objective.labels
    }
    return replace(applied, thresholds=scaled)


def _at_temperature(probability: float, temperature: float) -> float:
    """Returns what a probability becomes if its logit is divided by a temperature.

    Example:
    >>> round(_at_temperature(0.2, 2.0), 6)  # odds of 1 : 4 become 1 : 2
    0.333333
    """
    if temperature == 1 or probability in (0.0, 1.0):
        return probability
    odds = (1 / probability - 1) ** (1 / temperature)
    return 1 / (1 + odds)
