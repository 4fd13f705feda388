"""Thresholds of an evaluation: fitted, known, of an export, or none."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.objective_configs import config_of
from transbeam.configs.loader.calibration_file import (
    Calibration,
    hash_file,
    write_calibration,
)
from transbeam.configs.schema.objectives.supervised import (
    MultiLabelClassificationConfig,
)
from transbeam.trainer.calibration.class_logits import collect_logits
from transbeam.trainer.calibration.threshold_comparison import AnswerStatistics
from transbeam.trainer.evaluation.calibration_findings import find_calibration
from transbeam.trainer.evaluation.calibration_plan import (
    CalibrationPlan,
    plan_for_export,
)

KNOWN = Calibration(weights_sha256="a", records_sha256="b")
LABELS = replace(
    config_of("multi_label_classification"),
    objective=MultiLabelClassificationConfig(labels=("law", "arts")),
)
QUESTIONS = config_of("span_qa")
# The best answers to four questions are right, right, wrong, and to a question that has
# none. Exact match, F1 and a count of 1.
ANSWERS = AnswerStatistics(
    of_answers=np.array([[1, 1, 1], [0, 0.5, 1], [0, 0, 1], [0, 0, 1]], float),
    of_none=np.array([[0, 0, 1], [0, 0, 1], [0, 0, 1], [1, 1, 1]], float),
    difference=np.array([-4.0, -3.0, -2.0, -1.0]),
    default=0.0,
)


def of_labels(plan: CalibrationPlan):
    """Two labels of three texts: law is right at 0.5, arts needs a lower threshold."""
    shares = np.array([[0.9, 0.4], [0.2, 0.3], [0.1, 0.1]])
    logits = collect_logits(LABELS.objective)
    assert logits is not None
    odds = np.log(shares / (1 - shares)).astype(np.float32)
    targets = np.array([[1, 1], [0, 1], [0, 0]])
    logits({"logits": {"logits": odds}}, {"label": targets})
    return find_calibration(LABELS, plan, logits, None)


def test_a_threshold_for_each_label_is_fitted_and_stored(tmp_path: Path) -> None:
    found = of_labels(CalibrationPlan(fits=True, origin="fitted on this split"))
    assert found.thresholds is not None
    assert found.thresholds.thresholds == pytest.approx({"law": 0.5, "arts": 0.2})
    before, after = found.thresholds.before, found.thresholds.after
    # Of three labels that apply one is found, then all.
    assert (before["micro_f1"].score, after["micro_f1"].score) == (0.5, 1.0)
    assert [row[2:] for row in found.thresholds.rows()] == [(1, 1), (0, 1)]
    assert found.lines()[-1].startswith(
        "thresholds of labels, fitted on this split: micro f1 0.500 to 1.000 ("
    )
    weights = tmp_path / "weights"
    weights.write_bytes(b"1")
    stored = found.fitted(weights, "records")
    assert stored is not None
    assert stored.weights_sha256 == hash_file(weights)
    assert stored.thresholds == found.thresholds.thresholds
    assert stored.no_answer_threshold is None
    assert found.as_json()["thresholds"]["fitted"] == stored.thresholds
    assert found.as_json()["calibration"]["temperature"] == stored.temperature


def test_known_thresholds_are_used_as_they_are() -> None:
    known = replace(KNOWN, temperature=1.0, thresholds={"arts": 0.35, "law": 0.95})
    found = of_labels(CalibrationPlan(known=known))
    assert found.thresholds is not None
    assert found.thresholds.thresholds == {"law": 0.95, "arts": 0.35}
    assert found.thresholds.after["micro_f1"].score == 0.5  # of arts one
    # Those of other labels belong to another configuration.
    other = replace(known, thresholds={"arts": 0.5, "sport": 0.5})
    assert of_labels(CalibrationPlan(known=other)).thresholds is None
    assert of_labels(CalibrationPlan()).thresholds is None


def of_questions(plan: CalibrationPlan, answers: AnswerStatistics = ANSWERS):
    return find_calibration(QUESTIONS, plan, None, answers)


def test_a_no_answer_threshold_is_fitted_and_stored(tmp_path: Path) -> None:
    found = of_questions(CalibrationPlan(fits=True, origin="fitted on this split"))
    assert found.thresholds is not None
    assert found.thresholds.thresholds == -1.5
    # F1 of 1.5 of 4 becomes 2.5 of 4.
    assert found.thresholds.before["f1"].score == pytest.approx(0.375)
    assert found.thresholds.after["f1"].score == pytest.approx(0.625)
    assert found.thresholds.after["exact_match"].score == pytest.approx(0.5)
    (line,) = found.lines()
    assert line.startswith("no-answer threshold -1.500, fitted on this split: exact")
    assert found.scores() == {}
    weights = tmp_path / "weights"
    weights.write_bytes(b"1")
    stored = found.fitted(weights, "")
    assert stored is not None
    assert (stored.no_answer_threshold, stored.thresholds) == (-1.5, None)
    assert stored.temperature is None


def test_nothing_is_fitted_if_every_question_has_an_answer(tmp_path: Path) -> None:
    answered = replace(ANSWERS, default=None)
    found = of_questions(CalibrationPlan(fits=True), answered)
    assert (found.thresholds, found.note) == (None, "")
    assert found.fitted(tmp_path / "not read", "") is None
    # But one that is known is used, since an export would use it.
    known = replace(KNOWN, no_answer_threshold=-3.5)
    found = of_questions(CalibrationPlan(known=known), answered)
    assert found.thresholds is not None
    assert found.thresholds.before["f1"].score == pytest.approx(0.375)
    assert found.thresholds.after["f1"].score == pytest.approx(0.5)


def test_the_reason_is_said_where_a_threshold_would_matter() -> None:
    plan = CalibrationPlan(note="fit one first")
    assert of_questions(plan).note == "no fitted no-answer threshold: fit one first"
    assert of_questions(plan, replace(ANSWERS, default=None)).note == ""


def test_an_export_is_evaluated_with_its_own_thresholds(tmp_path: Path) -> None:
    applied = replace(KNOWN, temperature=2.0, no_answer_threshold=-3.5)
    version = tmp_path / "1"
    write_calibration(version / "assets.extra/calibration.json", applied)
    write_calibration(tmp_path / "tflite/calibration.json", applied)
    for export in (version, tmp_path / "tflite/model_int8.tflite"):
        plan = plan_for_export(export)
        assert not plan.fits
        # Its logits are divided already.
        assert plan.known == replace(applied, temperature=None)
        thresholds = of_questions(plan).thresholds
        assert thresholds is not None
        assert (thresholds.thresholds, thresholds.origin) == (-3.5, "of the export")
    assert plan_for_export(tmp_path / "2").known is None
