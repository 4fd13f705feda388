"""Scores of decisions at the default threshold, and at fitted thresholds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from transbeam.configs.schema.objectives.supervised import (
    MultiLabelClassificationConfig,
)
from transbeam.trainer.calibration.class_logits import ClassLogits
from transbeam.trainer.calibration.thresholds import (
    fit_label_thresholds,
    fit_no_answer_threshold,
)
from transbeam.trainer.metrics.classification import LabelSetScores
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals
from transbeam.trainer.metrics.squad import SpanAnswerScores

_OF_LABELS = ("micro_f1", "macro_f1", "exact_match")
_OF_ANSWERS = ("exact_match", "f1")


@dataclass(frozen=True)
class ThresholdComparison:
    """Thresholds of decisions, and the scores with and without them.

    Attributes:
        thresholds: By label; or one threshold, of having no answer.
        default: The threshold that is used if none is fitted; None if every question
            has an answer then.
        before: Scores at the default threshold.
        after: Scores at the thresholds.
        origin: Where the thresholds were fitted, in words.
    """

    thresholds: Mapping[str, float] | float
    default: float | None
    before: Mapping[str, Interval]
    after: Mapping[str, Interval]
    origin: str

    def __str__(self) -> str:
        """Describes what the thresholds change, in one line."""
        thresholds, shown = self.thresholds, _OF_ANSWERS
        if isinstance(thresholds, Mapping):
            name, shown = "thresholds of labels", _OF_LABELS
        else:
            name = f"no-answer threshold {thresholds:.3f}"
        changed = ", ".join(
            f"{score.replace('_', ' ')} {self.before[score].score:.3f} to "
            f"{self.after[score].score:.3f} ({self.after[score].low:.3f} to "
            f"{self.after[score].high:.3f})"
            for score in shown
        )
        return f"{name}, {self.origin}: {changed}"

    def rows(self) -> list[tuple[str, str, float, float]]:
        """Label, threshold, and F1 before and after it; empty without labels."""
        if not isinstance(self.thresholds, Mapping):
            return []
        return [
            (
                label,
                f"{threshold:.3g}",
                self.before[f"f1_{label}"].score,
                self.after[f"f1_{label}"].score,
            )
            for label, threshold in self.thresholds.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """Returns the thresholds, and the scores before and after."""
        thresholds = self.thresholds
        return {
            "fitted": (
                dict(thresholds) if isinstance(thresholds, Mapping) else thresholds
            ),
            "default": self.default,
            "origin": self.origin,
            **{
                when: {name: of._asdict() for name, of in scores.items()}
                for when, scores in (("before", self.before), ("after", self.after))
            },
        }


def compare_label_thresholds(
    logits: ClassLogits,
    objective: MultiLabelClassificationConfig,
    seed: int,
    known: Mapping[str, float] | None,
    origin: str,
) -> ThresholdComparison:
    """Compares decisions at the configured threshold and at a threshold per label.

    Args:
        logits: The logits of all labels of all texts.
        objective: Has the labels and the configured threshold.
        seed: Seed of the bootstrap.
        known: Thresholds by label; None to fit them to the logits.
        origin: See `ThresholdComparison`.
    """
    labels, default = objective.labels, objective.threshold
    shape = (-1, len(labels))
    shares = logits.assess().probabilities.reshape(shape)
    targets = logits.targets.reshape(shape)
    if known is None:
        fitted = fit_label_thresholds(shares, targets, default)
    else:
        fitted = np.array([known[label] for label in labels])
    metric = LabelSetScores(labels)

    def scores(thresholds: np.ndarray | float) -> dict[str, Interval]:
        assigned = (shares >= thresholds).astype(np.int64)
        statistics = metric.statistics(assigned, targets)
        return intervals(statistics, metric.scores, seed)

    return ThresholdComparison(
        dict(zip(labels, fitted.tolist(), strict=True)),
        default,
        scores(default),
        scores(fitted),
        origin,
    )


@dataclass(frozen=True)
class AnswerStatistics:
    """Statistics of `SpanAnswerScores` for each question, and its no-answer score.

    Attributes:
        of_answers: float64 (Q, 3). Of the best answers.
        of_none: float64 (Q, 3). Of predicting no answer.
        difference: float64 (Q,). See `BestAnswers`.
        default: The default threshold; None if every question has an answer.
    """

    of_answers: np.ndarray
    of_none: np.ndarray
    difference: np.ndarray
    default: float | None

    def at(self, threshold: float | None) -> np.ndarray:
        """Statistics of the predictions at a threshold; None: an answer to each."""
        if threshold is None:
            return self.of_answers
        is_none = (self.difference > threshold)[:, np.newaxis]
        return np.where(is_none, self.of_none, self.of_answers)


def compare_no_answer_threshold(
    answers: AnswerStatistics, seed: int, known: float | None, origin: str
) -> ThresholdComparison:
    """Compares predictions at the default no-answer threshold and at a fitted one.

    Args:
        answers: Statistics of all questions.
        seed: Seed of the bootstrap.
        known: The threshold; None to fit it to the answers.
        origin: See `ThresholdComparison`.
    """
    metric, f1 = SpanAnswerScores(), 1
    if known is None:
        known = fit_no_answer_threshold(
            answers.difference, answers.of_answers[:, f1], answers.of_none[:, f1]
        )
    before, after = (
        intervals(answers.at(threshold), metric.scores, seed)
        for threshold in (answers.default, known)
    )
    return ThresholdComparison(known, answers.default, before, after, origin)
