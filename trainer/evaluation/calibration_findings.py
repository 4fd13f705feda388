"""Calibration and decision thresholds of an evaluated model."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transbeam.configs.loader.calibration_file import Calibration, hash_file
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import LabelSetObjective
from transbeam.configs.schema.run import RunConfig
from transbeam.trainer.calibration.class_logits import LogitCollector
from transbeam.trainer.calibration.split_calibration import (
    SplitCalibration,
    calibrate_split,
)
from transbeam.trainer.calibration.threshold_comparison import (
    AnswerStatistics,
    ThresholdComparison,
    compare_label_thresholds,
    compare_no_answer_threshold,
)
from transbeam.trainer.evaluation.calibration_plan import CalibrationPlan
from transbeam.trainer.evaluation.evaluation_loop import format_scores
from transbeam.trainer.metrics.confidence_intervals import Interval


@dataclass(frozen=True)
class CalibrationFindings:
    """Everything that an evaluation finds out about probabilities and decisions.

    Attributes:
        split: The calibration of probabilities; None if there are none.
        thresholds: The comparison of thresholds; None if there are none.
        note: Why nothing was fitted or applied, in words; it may be empty.
    """

    split: SplitCalibration | None = None
    thresholds: ThresholdComparison | None = None
    note: str = ""

    def scores(self) -> dict[str, Interval]:
        """The scores of the model's own probabilities, by name."""
        return self.split.scores() if self.split else {}

    def lines(self) -> list[str]:
        """The results, for console and report, a line each."""
        lines = []
        if self.split is not None:
            lines.append(format_scores(self.split.scores()))
            lines += [str(self.split)] if self.split.after else []
        return lines + ([str(self.thresholds)] if self.thresholds else [])

    def as_json(self) -> dict[str, Any]:
        found = {"calibration": self.split, "thresholds": self.thresholds}
        return {name: of.as_json() for name, of in found.items() if of is not None}

    def fitted(self, weights: Path, records_sha256: str) -> Calibration | None:
        """Returns what was fitted, to be stored; None if there is nothing.

        Args:
            weights: The weights file.
            records_sha256: Fingerprint of the evaluated records.
        """
        if self.split is None and self.thresholds is None:
            return None
        thresholds = self.thresholds.thresholds if self.thresholds else None
        return Calibration(
            weights_sha256=hash_file(weights),
            records_sha256=records_sha256,
            temperature=self.split.temperature.value if self.split else None,
            thresholds=thresholds if isinstance(thresholds, Mapping) else None,
            no_answer_threshold=thresholds if isinstance(thresholds, float) else None,
        )


def find_calibration(
    config: RunConfig,
    plan: CalibrationPlan,
    logits: LogitCollector | None,
    answers: AnswerStatistics | None,
) -> CalibrationFindings:
    """Measures probabilities and thresholds, as an evaluation plans it.

    Args:
        config: The run.
        plan: The plan of the evaluation.
        logits: The logits of the split, if the objective has classes.
        answers: The answers to the split's questions, if it has questions.
    """
    if answers is not None:
        return _of_answers(config, plan, answers)
    if logits is None:
        return CalibrationFindings()
    objective, collected = config.objective, logits.collected()
    prefix = "pair_" if isinstance(objective, SentencePairsConfig) else ""
    temperature = plan.temperature(collected)
    split = calibrate_split(collected, config.seed, temperature, prefix)
    note = "" if split.after else str(split)
    if not isinstance(objective, LabelSetObjective):
        return CalibrationFindings(split, note=note)
    known = plan.known.thresholds if plan.known else None
    if not plan.fits and (known is None or known.keys() != set(objective.labels)):
        return CalibrationFindings(split, note=note)
    thresholds = compare_label_thresholds(
        collected, objective, config.seed, known, plan.origin
    )
    return CalibrationFindings(split, thresholds, note)


def _of_answers(
    config: RunConfig, plan: CalibrationPlan, answers: AnswerStatistics
) -> CalibrationFindings:
    known = plan.known.no_answer_threshold if plan.known else None
    has_unanswerable = answers.default is not None
    if known is None and not (plan.fits and has_unanswerable):
        is_asked = has_unanswerable and plan.note
        return CalibrationFindings(
            note=f"no fitted no-answer threshold: {plan.note}" if is_asked else ""
        )
    thresholds = compare_no_answer_threshold(answers, config.seed, known, plan.origin)
    return CalibrationFindings(thresholds=thresholds)
