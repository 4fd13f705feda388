"""Comparison of exports with Keras, for models with one answer for each input."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, assert_never

import numpy as np

from transbeam.configs.schema.export import ToleranceConfig
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import (
    ChoiceObjective,
    LabelSetObjective,
    NumberObjective,
    PooledObjective,
)
from transbeam.serving.parity.base.parity_checks import (
    IN_FLOATS,
    ParityCheck,
    agreement_row,
    at_most,
    first_choice,
    labels_row,
    largest,
    log_softmax,
    phone_row,
    probabilities_off,
)


class PooledParity(Protocol):
    """Reads a model's outputs, and compares those of an export with Keras's.

    Attributes:
        labels: Names of the classes; empty for regression.
    """

    labels: Sequence[str]

    def read(self, outputs: Mapping[str, Any]) -> np.ndarray:
        """Reads the numbers to compare from a model's outputs, as float64."""
        ...

    def decide(self, scores: np.ndarray) -> np.ndarray:
        """Converts scores to predictions in the format of the records' `label`."""
        ...

    def saved_model_rows(
        self,
        form: str,
        answers: Mapping[str, np.ndarray],
        reference: np.ndarray,
        limit: float,
    ) -> list[ParityCheck]:
        """Compares outputs of `serving_default` with Keras's answers."""
        ...

    def phone_rows(
        self,
        form: str,
        variant: str,
        answer: np.ndarray,
        reference: np.ndarray,
        tolerance: ToleranceConfig,
    ) -> list[ParityCheck]:
        """Compares the result of `read` for a TFLite file with Keras's answers."""
        ...


class ChoiceParity:
    """Compares log-probabilities of classes in nats, (N, C), and predicted labels."""

    def __init__(self, labels: Sequence[str]):
        self.labels = labels

    def read(self, outputs: Mapping[str, Any]) -> np.ndarray:
        return log_softmax(np.asarray(outputs["logits"]))

    def decide(self, scores: np.ndarray) -> np.ndarray:
        return first_choice(scores)

    def saved_model_rows(
        self,
        form: str,
        answers: Mapping[str, np.ndarray],
        reference: np.ndarray,
        limit: float,
    ) -> list[ParityCheck]:
        off = largest(probabilities_off(answers["scores"], reference))
        return [
            at_most(form, "log-probability, largest difference", off, limit),
            labels_row(form, answers, self.labels),
        ]

    def phone_rows(
        self,
        form: str,
        variant: str,
        answer: np.ndarray,
        reference: np.ndarray,
        tolerance: ToleranceConfig,
    ) -> list[ParityCheck]:
        off = answer - reference
        rows = [phone_row(form, "log-probability", off, variant, tolerance)]
        if variant not in IN_FLOATS:
            check, compared = "label, share equal", (answer, reference)
            rows.append(agreement_row(form, check, *compared, variant, tolerance))
        return rows


class LabelSetParity:
    """Compares probabilities of labels, (N, C), and those at or above a threshold."""

    def __init__(self, labels: Sequence[str], threshold: float):
        self.labels, self.threshold = labels, threshold

    def read(self, outputs: Mapping[str, Any]) -> np.ndarray:
        logits = np.asarray(outputs["logits"], np.float64)
        return np.exp(-np.logaddexp(0.0, -logits))

    def decide(self, scores: np.ndarray) -> np.ndarray:
        # A score that is no number is never right: neither 0 nor 1.
        known = ~np.isnan(scores)
        decided = np.full(scores.shape, -1)
        read = self.read({"logits": scores[known]})
        decided[known] = read >= self.threshold
        return decided

    def saved_model_rows(
        self,
        form: str,
        answers: Mapping[str, np.ndarray],
        reference: np.ndarray,
        limit: float,
    ) -> list[ParityCheck]:
        scores = answers["scores"]
        names = np.array([label.encode() for label in self.labels], object)
        order = np.argsort(-scores, axis=1, kind="stable")
        applies = np.take_along_axis(scores, order, axis=1) >= self.threshold
        expected = np.where(applies, names[order], b"")
        wrong = (answers["labels"] != expected) | (answers["classes"] != names)
        off = largest(scores - reference)
        return [
            at_most(form, "probability, largest difference", off, limit),
            at_most(form, "labels, answers that differ", wrong.any(axis=1).sum(), 0),
        ]

    def phone_rows(
        self,
        form: str,
        variant: str,
        answer: np.ndarray,
        reference: np.ndarray,
        tolerance: ToleranceConfig,
    ) -> list[ParityCheck]:
        rows = [phone_row(form, "probability", answer - reference, variant, tolerance)]
        if variant in IN_FLOATS:
            return rows
        # Near the threshold rounding may decide.
        near = np.abs(reference - self.threshold) <= getattr(tolerance, variant)
        same = (answer >= self.threshold) == (reference >= self.threshold)
        share, smallest = float(np.mean(same | near)), tolerance.dynamic_int8_agreement
        check = "labels, share equal"
        return [*rows, ParityCheck(form, check, share, smallest, share >= smallest)]


class NumberParity:
    """Compares the numbers of regression models, (N,)."""

    labels: Sequence[str] = ()

    def read(self, outputs: Mapping[str, Any]) -> np.ndarray:
        return np.asarray(outputs["score"], np.float64)

    def decide(self, scores: np.ndarray) -> np.ndarray:
        return scores

    def saved_model_rows(
        self,
        form: str,
        answers: Mapping[str, np.ndarray],
        reference: np.ndarray,
        limit: float,
    ) -> list[ParityCheck]:
        off = largest(answers["score"] - reference)
        return [at_most(form, "number, largest difference", off, limit)]

    def phone_rows(
        self,
        form: str,
        variant: str,
        answer: np.ndarray,
        reference: np.ndarray,
        tolerance: ToleranceConfig,
    ) -> list[ParityCheck]:
        return [phone_row(form, "number", answer - reference, variant, tolerance)]


def make_pooled_parity(objective: PooledObjective) -> PooledParity:
    """Makes the comparison for an objective with one answer for each input."""
    if isinstance(objective, SentencePairsConfig):
        return ChoiceParity(objective.pair_labels)
    if isinstance(objective, ChoiceObjective):
        return ChoiceParity(objective.labels)
    if isinstance(objective, LabelSetObjective):
        return LabelSetParity(objective.labels, objective.threshold)
    if isinstance(objective, NumberObjective):
        return NumberParity()
    assert_never(objective)
