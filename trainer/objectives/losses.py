"""What a model's answers cost: sums over real targets, and how many these are.

The loss of a batch is a sum divided by the number of targets in the whole batch, of all
its micro-batches and on all its replicas. So what is computed of a part are sums, and
the division comes from outside. Padding counts neither above nor below the line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from transbeam.configs.schema.run import RunConfig
from transbeam.model.functional.deferred_logits import DeferredLogits
from transbeam.model.kernels.vocabulary_loss import vocabulary_loss
from transbeam.trainer.objectives.targets import Target, TargetCosts, asks_of

# By the output asked: cost, count, and what the answers are judged by, `correct` or
# `absolute_error`. What is made small beside the answers, and is no part of the loss
# that is told, is not judged.
Sums = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Loss:
    """The loss that a training makes small.

    A choice costs its cross-entropy, a number the square of its error.

    Attributes:
        asks: What is asked; each is a mean over its own targets, and they are added.
        label_smoothing: Share of a target that is spread evenly over all classes
            ([Szegedy et al., 2016](https://arxiv.org/abs/1512.00567), section 7).
        z_loss: What the square of the logarithm of the softmax's denominator costs,
            which keeps scores from drifting
            ([Chowdhery et al., 2022](https://arxiv.org/abs/2204.02311), section 5).
    """

    asks: tuple[Target, ...]
    label_smoothing: float = 0.0
    z_loss: float = 0.0

    @property
    def reads_scores(self) -> bool:
        """Whether it wants all scores, and cannot do with `DeferredLogits`."""
        return False

    @property
    def variables(self) -> Sequence[keras.Variable]:
        """What `prepare` reads, and no update changes."""
        return ()

    def prepare(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Some records with all that the loss reads, before gradients are taken."""
        return batch

    def counts(self, batch: Mapping[str, Any]) -> list[Any]:
        """How many targets there are of each ask: float32 scalars."""
        return [ops.sum(ask.read(batch)[1]) for ask in self.asks]

    def no_sums(self) -> Sums:
        """What `sums` of no records are."""
        return {
            ask.output: {
                name: ops.zeros((), "float32") for name in ("cost", ask.judged, "count")
            }
            for ask in self.asks
        }

    def __call__(
        self,
        outputs: Mapping[str, Any],
        batch: Mapping[str, Any],
        counts: Sequence[Any],
    ) -> tuple[Any, Sums]:
        """The share that some records have in the loss of a batch.

        Args:
            outputs: The model's, for these records; or `DeferredLogits` of a
                vocabulary in place of them.
            batch: Their features.
            counts: Of the whole batch that they are part of, as `counts` gives them.

        Returns:
            The loss, a float32 scalar; and for each ask of these records, by output,
            `cost` (without smoothing or z-loss), `count`, and `correct` of choices or
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
        for ask, count in zip(self.asks, counts, strict=True):
            targets, weights = ask.read(batch)
            answers = outputs[ask.output]
            cost, told, judged = self._of_all(ask, answers, targets, weights)
            # Without any target there is nothing to divide, and nothing to learn.
            total = total + cost / ops.maximum(count, 1.0)
            sums[ask.output] = {
                "cost": told,
                ask.judged: judged,
                "count": ops.sum(weights),
            }
        return total, sums

    def answers(
        self, outputs: Mapping[str, Any], batch: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """What each record's answers were.

        Args:
            outputs: The model's.
            batch: Features by name.

        Returns:
            For each ask, by output: `guesses`, of the targets' shape, int32 of choices
            and float32 of numbers; what each target costs, `costs` float32 of this
            shape, without smoothing or z-loss; and added up for each record, float32
            `(B,)`: `cost`, `count`, and `correct` or `absolute_error`.
        """
        found = {}
        for ask in self.asks:
            targets, weights = ask.read(batch)
            each = self._of_each(ask, outputs[ask.output], targets)
            found[ask.output] = {
                "guesses": each.guesses,
                "costs": each.costs * weights,
                "cost": _per_record(each.costs * weights),
                ask.judged: _per_record(each.judged * weights),
                "count": _per_record(weights),
            }
        return found

    def _of_all(self, ask: Target, scores, targets, weights) -> tuple[Any, Any, Any]:
        """What all targets cost, the same as it is told, and how they are judged."""
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
        each = self._of_each(ask, scores, targets)
        return (
            ops.sum((each.costs + each.extra) * weights),
            ops.sum(each.costs * weights),
            ops.sum(each.judged * weights),
        )

    def _of_each(self, ask: Target, answers, targets) -> TargetCosts:
        return ask.cost(answers, targets, self.label_smoothing, self.z_loss)


def _per_record(x):
    return ops.sum(ops.reshape(x, (ops.shape(x)[0], -1)), axis=-1)


def loss_of(config: RunConfig) -> Loss:
    """What the training of a run makes small."""
    training = config.training
    return Loss(asks_of(config.objective), training.label_smoothing, training.z_loss)
