"""The calibration that an evaluation fits, or the fitted one that it applies."""

from dataclasses import dataclass
from pathlib import Path

from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.calibration_file import (
    Calibration,
    hash_file,
    read_calibration,
    run_calibration,
)
from transbeam.trainer.calibration.class_logits import ClassLogits
from transbeam.trainer.calibration.split_calibration import Temperature
from transbeam.trainer.calibration.temperature import fit_temperature

_ON_TRAINING = (
    "it would be fitted to training records, on which a model is better than on others"
)


@dataclass(frozen=True)
class CalibrationPlan:
    """The calibration of an evaluation.

    Numbers are fitted to the validation predictions of the run's own model. They are
    applied to the predictions of the same weights on a test set.

    Attributes:
        weights: The weights of the evaluated model; None if an export is evaluated.
        fits: True if this evaluation fits a calibration.
        known: A fitted calibration of these weights.
        note: Why there is none, in words; empty if the question does not arise.
    """

    weights: Path | None
    fits: bool = False
    known: Calibration | None = None
    note: str = ""

    def temperature(self, logits: ClassLogits) -> Temperature:
        """Returns the temperature that is applied, fitted to the logits if needed."""
        if self.fits:
            fit = fit_temperature(logits)
            return Temperature(fit.temperature, fit.reason or "fitted on this split")
        if self.known is None:
            return Temperature(None, self.note)
        if self.known.temperature == 1:
            return Temperature(1.0, "none was better on the validation split")
        return Temperature(self.known.temperature, "fitted on the validation split")


def plan_calibration(
    invocation: Invocation, weights: Path, *, on_test: bool, has_validation: bool
) -> CalibrationPlan:
    """Plans the calibration of an evaluation of a run's own model.

    Args:
        invocation: The command.
        weights: The file with the model's weights.
        on_test: True if a test set is evaluated.
        has_validation: False if there are no records but those of the training.

    Raises:
        ArtifactError: A fitted calibration is needed, and its file is damaged.
    """
    if not on_test:
        note = "" if has_validation else _ON_TRAINING
        return CalibrationPlan(weights, fits=has_validation, note=note)
    path, command = (
        run_calibration(invocation.run_folder),
        invocation.command("evaluate"),
    )
    known = read_calibration(path, f"Fit it again: {command}")
    if known is None:
        note = f"fit one on the validation split first: {command}"
    elif known.weights_sha256 != hash_file(weights):
        known, note = None, f"that in {path} is of other weights; fit it: {command}"
    else:
        note = ""
    return CalibrationPlan(weights, known=known, note=note)
