"""What the records of each objective ask of a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, assert_never

from keras import ops

from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import (
    ChoiceObjective,
    FillsObjective,
    NumberObjective,
    Objective,
    SpanObjective,
    TextObjective,
    TokenChoiceObjective,
)


@dataclass(frozen=True)
class Target:
    """One choice that records ask for: which token, which class, which place.

    Attributes:
        output: The model's output with the scores, `(B, ..., C)`.
        targets: The feature with what is right, int32 `(B, ...)`.
        weights: The feature that is 1 where something is asked and 0 elsewhere,
            `(B, ...)`; None where every record asks once.
        judged: What is added up beside the cost of the answers.
    """

    judged: ClassVar[str] = "correct"

    output: str
    targets: str
    weights: str | None = None

    def read(self, batch: Mapping[str, Any]) -> tuple[Any, Any]:
        """Targets and their weights, float32, in a batch.

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
    """One number that records ask for, and not a choice.

    Attributes:
        output: The model's output with the numbers, float32 `(B, ...)`.
        targets: The feature with what is right, float32 of the same shape.
        weights: As for a choice.
    """

    judged: ClassVar[str] = "absolute_error"


_MASKED = Target("logits", "masked_ids", "masked_weights")


def asks_of(objective: Objective) -> tuple[Target, ...]:
    """What the records of an objective ask; the loss is the sum over these.

    Example:
    >>> from transbeam.configs.schema.objectives.language_modeling import CausalConfig
    >>> asks_of(CausalConfig())
    (Target(output='logits', targets='target_ids', weights='target_weights'),)
    """
    if isinstance(objective, FillsObjective):
        return (_MASKED,)
    if isinstance(objective, SentencePairsConfig):
        return _MASKED, Target("pair_logits", f"{objective.task}_label")
    if isinstance(objective, ChoiceObjective):
        return (Target("logits", "label"),)
    if isinstance(objective, NumberObjective):
        return (NumberTarget("score", "label"),)
    if isinstance(objective, TokenChoiceObjective):
        return (Target("logits", "label_ids", "label_weights"),)
    if isinstance(objective, SpanObjective):
        start = Target("start_logits", "start_position")
        return start, Target("end_logits", "end_position")
    if isinstance(objective, TextObjective):
        return (Target("logits", "target_ids", "target_weights"),)
    assert_never(objective)
