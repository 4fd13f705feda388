"""The calibration that an evaluation fits, or the fitted one that it applies."""

from dataclasses import dataclass, replace
from pathlib import Path

from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.calibration_file import (
    CALIBRATION,
    Calibration,
    hash_file,
    read_calibration,
    run_calibration,
)
from transbeam.trainer.calibration.class_logits import ClassLogits
from transbeam.trainer.calibration.split_calibration import Temperature
from transbeam.trainer.calibration.temperature import fit_temperature
from transbeam.trainer.evaluation.run_model import RunModel

_ON_TRAINING = (
    "it would be fitted to training records, on which a model is better than on others"
)


@dataclass(frozen=True)
class CalibrationPlan:
    """The calibration of an evaluation.

    Numbers are fitted to the validation predictions of the run's own model. They are
    applied to the predictions of the same weights on a test set. An export is evaluated
    with its own thresholds.

    Attributes:
        fits: True if this evaluation fits a calibration.
        known: A fitted calibration of the evaluated model.
        note: Why there is none, in words; empty if the question does not arise.
        origin: Where the numbers were fitted, in words.
    """

    fits: bool = False
    known: Calibration | None = None
    note: str = ""
    origin: str = "fitted on the validation split"

    def temperature(self, logits: ClassLogits) -> Temperature:
        """Returns the temperature that is applied, fitted to the logits if needed."""
        if self.fits:
            fit = fit_temperature(logits)
            return Temperature(fit.temperature, fit.reason or self.origin)
        if self.known is None or self.known.temperature is None:
            return Temperature(None, self.note)
        if self.known.temperature == 1:
            return Temperature(1.0, "none was better on the validation split")
        return Temperature(self.known.temperature, self.origin)


def plan_calibration(
    invocation: Invocation, model: RunModel, *, on_test: bool, has_validation: bool
) -> CalibrationPlan:
    """Plans the calibration of an evaluation of a run's own model.

    Args:
        invocation: The command.
        model: The files of the model.
        on_test: True if a test set is evaluated.
        has_validation: False if there are no records but those of the training.

    Raises:
        ArtifactError: A fitted calibration is needed, and its file is damaged.
    """
    if not on_test:
        note = "" if has_validation else _ON_TRAINING
        return CalibrationPlan(
            fits=has_validation, note=note, origin="fitted on this split"
        )
    path, command = (
        run_calibration(invocation.run_folder),
        invocation.command("evaluate"),
    )
    known = read_calibration(path, f"Fit it again: {command}")
    if known is None and model.is_imported:
        note = ""  # mostly there is no validation split
    elif known is None:
        note = f"fit one on the validation split first: {command}"
    elif known.weights_sha256 != hash_file(model.weights):
        known, note = None, f"that in {path} is of other weights; fit it: {command}"
    else:
        note = ""
    return CalibrationPlan(known=known, note=note)


def plan_for_export(export: Path) -> CalibrationPlan:
    """Plans the calibration of an evaluation of an export.

    The export divides its logits itself. Its signatures with all scores decide nothing,
    so its thresholds are read from the file beside it.

    Args:
        export: A TFLite file, or the version folder of a SavedModel.

    Raises:
        ArtifactError: The export's calibration file is damaged.
    """
    folder = export.parent if export.suffix == ".tflite" else export / "assets.extra"
    known = read_calibration(folder / CALIBRATION, "Export the model again")
    if known is not None:
        known = replace(known, temperature=None)
    return CalibrationPlan(known=known, origin="of the export")
