"""Losses as sums over real targets, divided by the target count of the whole batch.

The loss of a batch is a sum divided by the number of targets in the whole batch, of all
its micro-batches and on all its replicas. So each micro-batch computes sums, and gets
the target count of the whole batch as an argument. Padding counts neither in the
numerator nor in the denominator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from transbeam.configs.schema.run import RunConfig
from transbeam.model.functional.deferred_logits import DeferredLogits
from transbeam.model.kernels.vocabulary_loss import vocabulary_loss
from transbeam.trainer.objectives.targets import Target, TargetCosts, make_targets

# By model output: `cost`, `count`, and the sum of the metric, `correct` or
# `absolute_error`. Further terms of the training loss, which the reported loss
# excludes, have no metric.
Sums = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Loss:
    """The training loss: cross-entropy of classes, squared error of numbers.

    Attributes:
        targets: The targets; the loss of each is a mean over its real targets, and the
            means are added.
        label_smoothing: Share of a target that is spread evenly over all classes
            ([Szegedy et al., 2016](https://arxiv.org/abs/1512.00567), section 7).
        z_loss: Coefficient of the squared logarithm of the softmax's denominator,
            which keeps logits from drifting
            ([Chowdhery et al., 2022](https://arxiv.org/abs/2204.02311), section 5).
        logits_of: The outputs of which `answers` also returns the logits. Those of a
            vocabulary would take more memory than all else.
    """

    targets: tuple[Target, ...]
    label_smoothing: float = 0.0
    z_loss: float = 0.0
    logits_of: frozenset[str] = frozenset()

    @property
    def reads_scores(self) -> bool:
        """True if the loss needs all logits and cannot take `DeferredLogits`."""
        return False

    @property
    def compares_records(self) -> bool:
        """True if a record's loss depends on the other records passed with it.

        In training these are the records of a micro-batch on the same replica, in an
        evaluation the whole batch.
        """
        return any(target.compares_records for target in self.targets)

    @property
    def variables(self) -> Sequence[keras.Variable]:
        """Variables that `prepare` reads and that updates do not change."""
        return ()

    def prepare(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Adds features that the loss reads to a batch, before gradients are taken."""
        return batch

    def counts(self, batch: Mapping[str, Any]) -> list[Any]:
        """Number of real targets per entry of `targets`: float32 scalars."""
        return [ops.sum(target.read(batch)[1]) for target in self.targets]

    def no_sums(self) -> Sums:
        """The sums of an empty batch: zeros in the structure of `Sums`."""
        return {
            target.output: {
                name: ops.zeros((), "float32")
                for name in ("cost", target.metric_name, "count")
            }
            for target in self.targets
        }

    def __call__(
        self,
        outputs: Mapping[str, Any],
        batch: Mapping[str, Any],
        counts: Sequence[Any],
    ) -> tuple[Any, Sums]:
        """Computes the contribution of some records to the loss of a batch.

        Args:
            outputs: The model's outputs for these records; vocabulary logits may be
                `DeferredLogits`.
            batch: Their features.
            counts: The target counts of the whole batch, from `counts`.

        Returns:
            The loss, a float32 scalar; and sums over these records' targets, by output:
            `cost` (without smoothing or z-loss), `count`, and `correct` of classes or
            `absolute_error` of numbers.

        Example:
        >>> import numpy as np
        >>> loss = Loss((Target("logits", "ids", "weights"),))
        >>> batch = {"ids": np.array([[0, 1]]), "weights": np.array([[1.0, 0.0]])}
        >>> scores = {"logits": np.log([[[0.25, 0.75], [0.5, 0.5]]])}
        >>> value, sums = loss(scores, batch, loss.counts(batch))
        >>> round(float(value), 4), float(sums["logits"]["correct"])
        (1.3863, 0.0)
        """
        total, sums = ops.zeros((), "float32"), {}
        for target, count in zip(self.targets, counts, strict=True):
            targets, weights = target.read(batch)
            answers = outputs[target.output]
            cost, reported, metric = self._of_all(target, answers, targets, weights)
            # A batch without targets has the loss 0.
            total = total + cost / ops.maximum(count, 1.0)
            sums[target.output] = {
                "cost": reported,
                target.metric_name: metric,
                "count": ops.sum(weights),
            }
        return total, sums

    def answers(
        self, outputs: Mapping[str, Any], batch: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Predictions and losses of each record, for an evaluation.

        Args:
            outputs: The model's outputs.
            batch: Features by name.

        Returns:
            For each target, by output: `guesses`, the predictions, of the targets'
            shape, int32 for classes and float32 for numbers; `costs`, the loss of each
            target, float32 of this shape, without smoothing or z-loss; sums over each
            record, float32 `(B,)`: `cost`, `count`, and `correct` or `absolute_error`;
            and for the outputs in `logits_of` the `logits`, float32.
        """
        found = {}
        for target in self.targets:
            targets, weights = target.read(batch)
            each = self._of_each(target, outputs[target.output], targets)
            found[target.output] = {
                "guesses": each.guesses,
                "costs": each.costs * weights,
                "cost": _per_record(each.costs * weights),
                target.metric_name: _per_record(each.metric * weights),
                "count": _per_record(weights),
            }
            if target.output in self.logits_of:
                logits = ops.cast(outputs[target.output], "float32")
                found[target.output]["logits"] = logits
        return found

    def _of_all(self, target: Target, scores, targets, weights) -> tuple[Any, Any, Any]:
        """Sums of the training loss, of the reported loss, and of the metric."""
        if isinstance(scores, DeferredLogits):
            width = scores.vectors.shape[-1]
            return vocabulary_loss(
                ops.reshape(scores.vectors, (-1, width)),
                scores.table,
                scores.bias,
                ops.reshape(targets, (-1,)),
                ops.reshape(weights, (-1,)),
                label_smoothing=self.label_smoothing,
                z_loss=self.z_loss,
            )
        each = self._of_each(target, scores, targets)
        return (
            ops.sum((each.costs + each.extra) * weights),
            ops.sum(each.costs * weights),
            ops.sum(each.metric * weights),
        )

    def _of_each(self, target: Target, answers, targets) -> TargetCosts:
        return target.cost(answers, targets, self.label_smoothing, self.z_loss)


def _per_record(x):
    return ops.sum(ops.reshape(x, (ops.shape(x)[0], -1)), axis=-1)


def make_loss(config: RunConfig, logits_of: frozenset[str] = frozenset()) -> Loss:
    """Builds the training loss of a run.

    Args:
        config: The run.
        logits_of: See `Loss`.
    """
    training = config.training
    return Loss(
        make_targets(config.objective),
        training.label_smoothing,
        training.z_loss,
        logits_of,
    )
