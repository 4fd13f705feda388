"""Comparison of exports with Keras, for models with one prediction per input."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import numpy as np

from transbeam.configs.schema.export import ToleranceConfig
from transbeam.configs.schema.objectives.objective import (
    ChoiceObjective,
    LabeledObjective,
    LabelSetObjective,
    NumberObjective,
)
from transbeam.serving.base.applied_calibration import (
    NOT_CALIBRATED,
    AppliedCalibration,
)
from transbeam.serving.parity.base.parity_checks import (
    IN_FLOATS,
    ParityCheck,
    agreement,
    at_most,
    first_choice,
    largest,
    log_softmax,
    phone_row,
    probabilities_off,
    share_row,
)


class AnswerParity(ABC):
    """Compares the scores in an export's outputs with those of Keras.

    Attributes:
        number: Name of the compared quantity.
        target: Name of the feature of the records that contains the targets.
        columns: For models with one answer per word, the outputs of `serving_default`
            with one value per word.
    """

    number: str
    target: str = "label"
    columns: tuple[str, ...] = ()

    @abstractmethod
    def read(self, outputs: Mapping[str, Any]) -> np.ndarray:
        """Extracts the scores to compare from a model's outputs, as float64."""

    @abstractmethod
    def differences(
        self, answers: Mapping[str, np.ndarray], reference: np.ndarray
    ) -> np.ndarray:
        """Subtracts Keras's scores from the scores in outputs of `serving_default`."""

    def saved_model_rows(
        self,
        form: str,
        answers: Mapping[str, np.ndarray],
        reference: np.ndarray,
        limit: float,
    ) -> list[ParityCheck]:
        """Compares the scores in outputs of `serving_default` with Keras's."""
        off = largest(self.differences(answers, reference))
        return [at_most(form, f"{self.number}, largest difference", off, limit)]

    def phone_rows(
        self,
        form: str,
        variant: str,
        answer: np.ndarray,
        reference: np.ndarray,
        tolerance: ToleranceConfig,
    ) -> list[ParityCheck]:
        """Compares a TFLite file's scores, as `read` returns them, with Keras's."""
        return [phone_row(form, self.number, answer - reference, variant, tolerance)]


class LabelParity(AnswerParity):
    """Compares a model's scores, and the labels that are derived from them.

    Args:
        labels: Names of the classes, by id.

    Attributes:
        decision: Name of the prediction that follows from the scores, such as `label`.
    """

    decision = "label"

    def __init__(self, labels: Sequence[str]):
        self.labels = labels
        self.names = np.array([label.encode() for label in labels], object)

    @abstractmethod
    def decide(self, scores: np.ndarray) -> np.ndarray:
        """Converts scores to predictions in the format of the records' `label`."""

    @abstractmethod
    def wrong(self, answers: Mapping[str, np.ndarray]) -> np.ndarray:
        """Marks the labels that are inconsistent with the scores: bool (N, ...)."""

    @abstractmethod
    def agreement(self, answer: np.ndarray, reference: np.ndarray, tie: float) -> float:
        """Computes the share of equal labels, up to score differences of `tie`."""

    def saved_model_rows(
        self,
        form: str,
        answers: Mapping[str, np.ndarray],
        reference: np.ndarray,
        limit: float,
    ) -> list[ParityCheck]:
        wrong = self.wrong(answers) | (answers["classes"] != self.names)
        different = int(wrong.any(axis=1).sum())
        return [
            *super().saved_model_rows(form, answers, reference, limit),
            at_most(form, "labels, answers that differ", different, 0),
        ]

    def phone_rows(
        self,
        form: str,
        variant: str,
        answer: np.ndarray,
        reference: np.ndarray,
        tolerance: ToleranceConfig,
    ) -> list[ParityCheck]:
        rows = super().phone_rows(form, variant, answer, reference, tolerance)
        if variant in IN_FLOATS:
            return rows
        share = self.agreement(answer, reference, getattr(tolerance, variant))
        return [
            *rows,
            share_row(form, f"{self.decision}, share equal", share, tolerance),
        ]


class ChoiceParity(LabelParity):
    """Compares class log-probabilities (N, C), in nats; the largest gives the label."""

    number = "log-probability"

    def read(self, outputs: Mapping[str, Any]) -> np.ndarray:
        return log_softmax(np.asarray(outputs["logits"]))

    def differences(
        self, answers: Mapping[str, np.ndarray], reference: np.ndarray
    ) -> np.ndarray:
        return probabilities_off(answers["scores"], reference)

    def decide(self, scores: np.ndarray) -> np.ndarray:
        return first_choice(scores)

    def wrong(self, answers: Mapping[str, np.ndarray]) -> np.ndarray:
        best = self.names[np.argmax(answers["scores"], axis=1)]
        return (answers["label"] != best)[:, np.newaxis]

    def agreement(self, answer: np.ndarray, reference: np.ndarray, tie: float) -> float:
        return agreement(answer, reference, tie)


class LabelSetParity(LabelParity):
    """Compares label probabilities (N, C) and the labels that reach their thresholds.

    Args:
        labels: Names of the labels, by id.
        thresholds: The smallest probability at which each label applies.
    """

    number, decision = "probability", "labels"

    def __init__(self, labels: Sequence[str], thresholds: Sequence[float]):
        super().__init__(labels)
        self.thresholds = np.array(thresholds, np.float32)

    def read(self, outputs: Mapping[str, Any]) -> np.ndarray:
        logits = np.asarray(outputs["logits"], np.float64)
        return np.exp(-np.logaddexp(0.0, -logits))

    def differences(
        self, answers: Mapping[str, np.ndarray], reference: np.ndarray
    ) -> np.ndarray:
        return answers["scores"] - reference

    def decide(self, scores: np.ndarray) -> np.ndarray:
        # A score that is no number is never right: neither 0 nor 1.
        known = ~np.isnan(scores)
        shares = self.read({"logits": np.where(known, scores, 0.0)})
        return np.where(known, shares >= self.thresholds, -1)

    def wrong(self, answers: Mapping[str, np.ndarray]) -> np.ndarray:
        order = np.argsort(-answers["scores"], axis=1, kind="stable")
        ranked = np.take_along_axis(answers["scores"], order, axis=1)
        expected = np.where(ranked >= self.thresholds[order], self.names[order], b"")
        return answers["labels"] != expected

    def agreement(self, answer: np.ndarray, reference: np.ndarray, tie: float) -> float:
        near = np.abs(reference - self.thresholds) <= tie
        same = (answer >= self.thresholds) == (reference >= self.thresholds)
        return float(np.mean(same | near))


class NumberParity(AnswerParity):
    """Compares the scores of regression models, (N,)."""

    number = "number"

    def read(self, outputs: Mapping[str, Any]) -> np.ndarray:
        return np.asarray(outputs["score"], np.float64)

    def differences(
        self, answers: Mapping[str, np.ndarray], reference: np.ndarray
    ) -> np.ndarray:
        return answers["score"] - reference


def make_pooled_parity(
    objective: LabeledObjective | NumberObjective,
    calibration: AppliedCalibration = NOT_CALIBRATED,
) -> AnswerParity:
    """Makes the `AnswerParity` of an objective with one prediction per input.

    Args:
        objective: The objective.
        calibration: The calibration that the export applies; it may have thresholds.
    """
    if isinstance(objective, LabelSetObjective):
        thresholds = calibration.label_thresholds(objective)
        return LabelSetParity(objective.labels, thresholds)
    if isinstance(objective, ChoiceObjective):
        return ChoiceParity(objective.labels)
    if isinstance(objective, NumberObjective):
        return NumberParity()
    assert_never(objective)
