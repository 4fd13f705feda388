"""A calibration is fitted to held-out predictions, and used for the same weights."""

from pathlib import Path

import numpy as np
import pytest

from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.calibration_file import (
    Calibration,
    hash_file,
    run_calibration,
    write_calibration,
)
from transbeam.trainer.calibration.class_logits import ClassLogits
from transbeam.trainer.evaluation.calibration_plan import (
    CalibrationPlan,
    plan_calibration,
)
from transbeam.trainer.evaluation.run_model import RunModel

LOGITS = ClassLogits(
    np.array([[2, 0]] * 3, np.float32), np.array([0, 0, 1]), np.arange(3), 3
)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(b"1")
    return path


def plan(
    weights: Path,
    *,
    on_test: bool,
    has_validation: bool = True,
    is_imported: bool = False,
):
    invocation = Invocation(
        config=None,  # type: ignore[arg-type]
        config_file=Path("a.yaml"),
        overrides=(),
        run_folder=weights.parent,
        console=Console(),
        workers=1,
    )
    model = RunModel(None, weights, weights.parent, "", is_imported)  # type: ignore[arg-type]
    return plan_calibration(
        invocation, model, on_test=on_test, has_validation=has_validation
    )


def store(weights: Path, temperature: float) -> None:
    calibration = Calibration(
        weights_sha256=hash_file(weights), records_sha256="", temperature=temperature
    )
    write_calibration(run_calibration(weights.parent), calibration)


def test_it_is_fitted_to_the_validation_split(weights: Path) -> None:
    store(weights, 7.0)  # it is made anew
    made = plan(weights, on_test=False)
    assert made.fits
    assert made.temperature(LOGITS).value == pytest.approx(2.8854, abs=1e-4)


def test_and_not_to_training_records(weights: Path) -> None:
    made = plan(weights, on_test=False, has_validation=False)
    assert not made.fits
    found = made.temperature(LOGITS)
    assert found.value is None
    assert "fitted to training records" in found.note


@pytest.mark.parametrize(("value", "note"), [(7.0, "validation"), (1.0, "none was")])
def test_a_test_set_is_scored_with_it(weights: Path, value: float, note: str) -> None:
    store(weights, value)
    found = plan(weights, on_test=True).temperature(LOGITS)
    assert found.value == value
    assert note in found.note


def test_other_weights_or_no_evaluation_are_named(weights: Path) -> None:
    missing = plan(weights, on_test=True).temperature(LOGITS)
    assert missing.value is None
    assert "first: transbeam evaluate a.yaml" in missing.note
    imported = plan(weights, on_test=True, is_imported=True)
    assert imported.temperature(LOGITS).note == ""
    store(weights, 7.0)
    weights.write_bytes(b"2")
    stale = plan(weights, on_test=True).temperature(LOGITS)
    assert stale.value is None
    assert "of other weights" in stale.note


def test_an_export_s_probabilities_are_left_as_they_are() -> None:
    assert CalibrationPlan().temperature(LOGITS).value is None
