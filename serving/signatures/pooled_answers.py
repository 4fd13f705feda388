"""Outputs of signatures with one prediction per input: a class, labels or a number."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, assert_never

import tensorflow as tf

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


class PooledAnswer(Protocol):
    """Converts the outputs of a model to the outputs of its signatures.

    Attributes:
        method: The TF Serving method, such as `classify`, that defines the output
            format.
    """

    method: str

    def default_outputs(self, outputs: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        """Returns the outputs of `serving_default`."""
        ...

    def method_outputs(self, outputs: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        """Returns the outputs of the signature that TF Serving's `method` calls."""
        ...


class ChoiceAnswer:
    """Single-label classification: the class of each input.

    Shapes: `B` inputs, `C` classes.

    - `serving_default`: `label` string (B,), the most probable class; `classes` string
      (B, C), in the order of `objective.labels`; `scores` float32 (B, C), their
      probabilities.
    - `classify`: `classes` and `scores`, the outputs that TF Serving's Classify uses.

    Args:
        labels: Names of the classes, by id.
    """

    method = "classify"

    def __init__(self, labels: Sequence[str]):
        self.labels = labels

    def default_outputs(self, outputs: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        logits = outputs["logits"]  # (B, C)
        labels = tf.constant(self.labels)
        return {
            "label": tf.gather(labels, tf.argmax(logits, axis=1)),
            "classes": tf.broadcast_to(labels, tf.shape(logits)),
            "scores": tf.nn.softmax(logits),
        }

    def method_outputs(self, outputs: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        answers = self.default_outputs(outputs)
        return {name: answers[name] for name in ("classes", "scores")}


class LabelSetAnswer:
    """Multi-label classification: the labels that apply to each input.

    Shapes: `B` inputs, `C` labels.

    - `serving_default`: `labels` string (B, C), the labels that apply, the most
      probable first, padded with `""`; `classes` string (B, C), all labels in the order
      of `objective.labels`; `scores` float32 (B, C), the probability of each label.
    - `classify`: `classes` and `scores`, the outputs that TF Serving's Classify uses.

    Args:
        labels: Names of the labels, by id.
        thresholds: The smallest probability at which each label applies.
    """

    method = "classify"

    def __init__(self, labels: Sequence[str], thresholds: Sequence[float]):
        self.labels, self.thresholds = labels, thresholds

    def default_outputs(self, outputs: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        scores = tf.sigmoid(outputs["logits"])  # (B, C)
        labels = tf.constant(self.labels)
        order = tf.argsort(scores, axis=1, direction="DESCENDING", stable=True)
        applies = scores >= tf.constant(self.thresholds, scores.dtype)
        applies = tf.gather(applies, order, axis=1, batch_dims=1)
        return {
            "labels": tf.where(applies, tf.gather(labels, order), ""),
            "classes": tf.broadcast_to(labels, tf.shape(scores)),
            "scores": scores,
        }

    def method_outputs(self, outputs: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        answers = self.default_outputs(outputs)
        return {name: answers[name] for name in ("classes", "scores")}


class NumberAnswer:
    """Regression: the predicted number for each input.

    Shapes: `B` inputs.

    - `serving_default`: `score` float32 (B,).
    - `regress`: `outputs` float32 (B,), the output that TF Serving's Regress requires.
    """

    method = "regress"

    def default_outputs(self, outputs: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        return {"score": outputs["score"]}

    def method_outputs(self, outputs: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        return {"outputs": outputs["score"]}


def make_pooled_answer(
    objective: LabeledObjective | NumberObjective,
    calibration: AppliedCalibration = NOT_CALIBRATED,
) -> PooledAnswer:
    """Makes the output converter of an objective with one prediction per input.

    Args:
        objective: The objective.
        calibration: The calibration that the export applies; it may have thresholds.

    Example:
    >>> from transbeam.configs.schema.objectives.supervised import RegressionConfig
    >>> make_pooled_answer(RegressionConfig()).method
    'regress'
    """
    if isinstance(objective, LabelSetObjective):
        thresholds = calibration.label_thresholds(objective)
        return LabelSetAnswer(objective.labels, thresholds)
    if isinstance(objective, ChoiceObjective):
        return ChoiceAnswer(objective.labels)
    if isinstance(objective, NumberObjective):
        return NumberAnswer()
    assert_never(objective)
