"""Targets of each objective: model output, target feature and weights."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, assert_never

import numpy as np
from keras import ops

from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import (
    ChoiceObjective,
    EmbeddingObjective,
    FillsObjective,
    LabelSetObjective,
    NumberObjective,
    Objective,
    SpanObjective,
    TextObjective,
    TokenChoiceObjective,
)
from transbeam.model.kernels.cross_entropy import cross_entropy
from transbeam.trainer.objectives.baselines import (
    number_sums,
    target_counts,
    unigram_entropy,
    variance,
)
from transbeam.trainer.objectives.contrastive_loss import candidates, rank_pairs
from transbeam.trainer.objectives.divergence import divergence


class TargetCosts(NamedTuple):
    """Predictions and losses of a target, each of the shape of the target feature.

    Attributes:
        guesses: The predictions: the top-1 class, or the number.
        costs: The loss: nats for a class, the squared error for a number.
        extra: Loss added by label smoothing and z-loss.
        metric: 1 for a correct class, else 0; the absolute error for a number.
    """

    guesses: Any
    costs: Any
    extra: Any
    metric: Any


@dataclass(frozen=True)
class Target:
    """A categorical target: a token, a class or a position.

    Attributes:
        output: The model's output with the logits, `(B, ..., C)`.
        targets: The feature with the target ids, int32 `(B, ...)`.
        weights: The feature that is 1 for a real target and 0 elsewhere, `(B, ...)`;
            None where every record has one target.
        metric_name: The name under which the metric's sum is stored beside the loss.
        compares_records: True if the loss of a record depends on the other records that
            are evaluated with it.
    """

    metric_name: ClassVar[str] = "correct"
    compares_records: ClassVar[bool] = False

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

    def wanted(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Returns the values that `guesses` should have, for an error analysis."""
        return batch[self.targets]

    def cost(
        self,
        answers: Any,
        targets: Any,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
    ) -> TargetCosts:
        """Computes the loss of predictions; see `Loss` for the terms that are added."""
        logits = ops.cast(answers, "float32")
        targets = ops.cast(targets, "int32")
        nats, log_sum = cross_entropy(logits, targets)
        guess = ops.cast(ops.argmax(logits, axis=-1), "int32")
        correct = ops.cast(ops.equal(guess, targets), "float32")
        extra = ops.zeros_like(nats)
        if label_smoothing:
            evenly = log_sum - ops.mean(logits, axis=-1)
            extra = extra + label_smoothing * (evenly - nats)
        if z_loss:
            extra = extra + z_loss * ops.square(log_sum)
        return TargetCosts(guess, nats, extra, correct)

    def divergence(
        self, student: Any, teacher: Any, temperature: float
    ) -> tuple[Any, float]:
        """Returns a student's divergence from its teacher and a factor for the loss."""
        return divergence(student, teacher, temperature), temperature**2

    def input_free_sums(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Sums over targets that determine the best input-free prediction."""
        return target_counts(self.targets, self.weights, batch)

    def input_free_loss(self, sums: np.ndarray) -> float:
        """The loss per target of the best input-free prediction."""
        return unigram_entropy(sums)


@dataclass(frozen=True)
class NumberTarget(Target):
    """A numeric target, for regression.

    Attributes:
        output: The model's output with the predicted numbers, float32 `(B, ...)`.
        targets: The feature with the target numbers, float32 of the same shape.
        weights: As in `Target`.
    """

    metric_name: ClassVar[str] = "absolute_error"

    def cost(
        self,
        answers: Any,
        targets: Any,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
    ) -> TargetCosts:
        error = answers - ops.cast(targets, "float32")
        costs = ops.square(error)
        return TargetCosts(answers, costs, ops.zeros_like(costs), ops.abs(error))

    def divergence(
        self, student: Any, teacher: Any, temperature: float
    ) -> tuple[Any, float]:
        return ops.square(student - teacher), 1.0

    def input_free_sums(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        return number_sums(self.targets, self.weights, batch)

    def input_free_loss(self, sums: np.ndarray) -> float:
        return variance(sums)


@dataclass(frozen=True)
class LabelSetTarget(Target):
    """A multi-label target: for each label, 1 if it applies to the text, else 0.

    Each label has a separate binary cross-entropy, as in logistic regression.

    Attributes:
        output: The model's output with the logits, `(B, C)`.
        targets: The feature that is 1 for each label that applies, int32 `(B, C)`.
        threshold: A label is predicted if its probability is at least the threshold.
        class_weights: Weight of each label, by which the loss is multiplied if the
            label applies; None if all weights are 1. The weights affect the loss that
            is minimized, not the one that is reported.
    """

    threshold: float = 0.5
    class_weights: tuple[float, ...] | None = None

    def cost(
        self,
        answers: Any,
        targets: Any,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
    ) -> TargetCosts:
        logits = ops.cast(answers, "float32")
        applies = ops.cast(targets, "float32")
        nats = ops.softplus(logits) - logits * applies
        guess = ops.cast(
            logits >= math.log(self.threshold / (1 - self.threshold)), "int32"
        )
        correct = ops.cast(ops.equal(guess, ops.cast(targets, "int32")), "float32")
        minimized = nats
        if label_smoothing:
            minimized = nats - label_smoothing * logits * (0.5 - applies)
        if self.class_weights is not None:
            weights = ops.convert_to_tensor(self.class_weights, "float32")
            minimized = minimized * (1.0 + (weights - 1.0) * applies)
        return TargetCosts(guess, nats, minimized - nats, correct)

    def divergence(
        self, student: Any, teacher: Any, temperature: float
    ) -> tuple[Any, float]:
        # A label is a choice between its score and 0.
        student, teacher = (
            ops.stack([scores, ops.zeros_like(scores)], axis=-1)
            for scores in (student, teacher)
        )
        return divergence(student, teacher, temperature), temperature**2

    def input_free_sums(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        applies = batch[self.targets]
        return np.append(len(applies), applies.sum(axis=0))

    def input_free_loss(self, sums: np.ndarray) -> float:
        number, applying = sums[0], sums[1:]
        pairs = zip(applying, number - applying, strict=True)
        return float(np.mean([unigram_entropy(np.array(pair)) for pair in pairs]))


@dataclass(frozen=True)
class PairTarget(Target):
    """The partner of each text, for contrastive learning; see `rank_pairs`.

    `guesses` of its `TargetCosts` are the ranks of the partners, from 1.

    Attributes:
        output: The model's output with the vectors of all texts, `(B N, D)`, or
            `(B, N, D)`.
        targets: The feature with the texts' hashes, int32 `(B, N, 2)`.
        scale: Factor of the cosine similarities.
        symmetric: Whether partners rank the texts, too.
    """

    compares_records: ClassVar[bool] = True

    scale: float = 20.0
    symmetric: bool = False

    def read(self, batch: Mapping[str, Any]) -> tuple[Any, Any]:
        hashes = batch[self.targets]
        return hashes, ops.ones(ops.shape(hashes)[:1], "float32")

    def wanted(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.ones(len(batch[self.targets]), np.int32)

    def cost(
        self,
        answers: Any,
        targets: Any,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
    ) -> TargetCosts:
        shape = (-1, targets.shape[1], ops.shape(answers)[-1])
        vectors = ops.reshape(answers, shape)
        costs, ranks = rank_pairs(vectors, targets, self.scale, self.symmetric)
        correct = ops.cast(ops.equal(ranks, 1), "float32")
        return TargetCosts(ranks, costs, ops.zeros_like(costs), correct)

    def divergence(
        self, student: Any, teacher: Any, temperature: float
    ) -> tuple[Any, float]:
        raise NotImplementedError("the configuration refuses distillation")

    def input_free_sums(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        allowed = ops.convert_to_numpy(candidates(batch[self.targets]))
        numbers = [allowed.sum(axis=1)]
        if self.symmetric:
            numbers.append(allowed[:, : len(allowed)].sum(axis=1))
        return np.array([len(allowed), np.mean(np.log(numbers), axis=0).sum()])

    def input_free_loss(self, sums: np.ndarray) -> float:
        return float(sums[1] / max(sums[0], 1.0))


_MASKED = Target("logits", "masked_ids", "masked_weights")


def make_targets(objective: Objective) -> tuple[Target, ...]:
    """The targets of an objective; the loss is the sum of their losses.

    Example:
    >>> from transbeam.configs.schema.objectives.language_modeling import CausalConfig
    >>> make_targets(CausalConfig())
    (Target(output='logits', targets='target_ids', weights='target_weights'),)
    """
    if isinstance(objective, FillsObjective):
        return (_MASKED,)
    if isinstance(objective, SentencePairsConfig):
        return _MASKED, Target("pair_logits", f"{objective.task}_label")
    if isinstance(objective, ChoiceObjective):
        return (Target("logits", "label"),)
    if isinstance(objective, LabelSetObjective):
        threshold, weights = objective.threshold, objective.class_weights
        return (LabelSetTarget("logits", "label", None, threshold, weights),)
    if isinstance(objective, NumberObjective):
        return (NumberTarget("score", "label"),)
    if isinstance(objective, TokenChoiceObjective):
        return (Target("logits", "label_ids", "label_weights"),)
    if isinstance(objective, SpanObjective):
        start = Target("start_logits", "start_position")
        return start, Target("end_logits", "end_position")
    if isinstance(objective, EmbeddingObjective):
        config = objective.scale, objective.symmetric
        return (PairTarget("embedding", "text_hashes", None, *config),)
    if isinstance(objective, TextObjective):
        return (Target("logits", "target_ids", "target_weights"),)
    assert_never(objective)
