"""Targets of each objective: model output, target feature and weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from keras import ops

from transbeam.configs.schema.objectives.language_modeling import (
    MaskedConfig,
    SentencePairsConfig,
)
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    ImageClassificationConfig,
    PairClassificationConfig,
    PairRegressionConfig,
    RegressionConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)


@dataclass(frozen=True)
class Target:
    """A categorical target: a token, a class or a position.

    Attributes:
        output: Name of the model's output with the logits, `(B, ..., C)`.
        targets: Name of the feature with the target ids, int32 `(B, ...)`.
        weights: Name of the feature that is 1 for real targets and 0 elsewhere,
            `(B, ...)`; None if every record has one target.
        judged: Name of the metric that is summed beside the loss.
    """

    judged: ClassVar[str] = "correct"

    output: str
    targets: str
    weights: str | None = None

    def read(self, batch: Mapping[str, Any]) -> tuple[Any, Any]:
        """Reads targets and their float32 weights from a batch.

        Example:
        >>> import numpy as np
        >>> batch = {"label": np.array([3, 1])}
        >>> targets, weights = Target("logits", "label").read(batch)
        >>> ops.convert_to_numpy(weights)
        array([1., 1.], dtype=float32)
        """
        targets = batch[self.targets]
        if self.weights is None:
            return targets, ops.ones(ops.shape(targets), "float32")
        return targets, ops.cast(batch[self.weights], "float32")


@dataclass(frozen=True)
class NumberTarget(Target):
    """A numeric target, for regression.

    Attributes:
        output: Name of the model's output with the numbers, float32 `(B, ...)`.
        targets: Name of the feature with the target numbers, float32 of the same shape.
        weights: As in `Target`.
    """

    judged: ClassVar[str] = "absolute_error"


def asks_of(objective: Objective) -> tuple[Target, ...]:
    """The targets of an objective; the loss is the sum of their losses.

    Example:
    >>> from transbeam.configs.schema.objectives.language_modeling import CausalConfig
    >>> asks_of(CausalConfig())
    (Target(output='logits', targets='target_ids', weights='target_weights'),)
    """
    masked = Target("logits", "masked_ids", "masked_weights")
    match objective:
        case MaskedConfig():
            return (masked,)
        case SentencePairsConfig(task=task):
            return masked, Target("pair_logits", f"{task}_label")
        case (
            ClassificationConfig()
            | PairClassificationConfig()
            | ImageClassificationConfig()
        ):
            return (Target("logits", "label"),)
        case RegressionConfig() | PairRegressionConfig():
            return (NumberTarget("score", "label"),)
        case TokenClassificationConfig():
            return (Target("logits", "label_ids", "label_weights"),)
        case SpanQAConfig():
            start = Target("start_logits", "start_position")
            return start, Target("end_logits", "end_position")
        case _:
            return (Target("logits", "target_ids", "target_weights"),)
