"""The update rule from gradients to new weights, the same on every backend."""

from collections.abc import Sequence
from typing import Any

from keras import ops

from transbeam.configs.schema.training import TrainingConfig
from transbeam.trainer.step.state import TrainState

_STEPS_TO_DOUBLE = 2_000


class UpdateRule:
    """The update around the optimizer: unscaling, clipping, averages, counters.

    Everything here uses `keras.ops` on variables, which both backends can trace.
    """

    def __init__(self, state: TrainState, config: TrainingConfig):
        self.state = state
        self.clip_norm = config.clip_norm
        self.ema_decay = config.ema_decay

    def finish(self, gradients: Sequence[Any]) -> tuple[list[Any], Any, Any]:
        """Unscales and clips gradients.

        Returns:
            The gradients, their norm before clipping, and a bool: if it is finite.
        """
        scale = 1.0 / self.state.loss_scale.value
        if self.state.scales:
            gradients = [gradient * scale for gradient in gradients]
        squares = [ops.sum(ops.square(ops.cast(g, "float32"))) for g in gradients]
        norm = ops.sqrt(sum(squares[1:], squares[0]))
        if self.clip_norm is not None:
            factor = ops.minimum(1.0, self.clip_norm / ops.maximum(norm, 1e-30))
            gradients = [g * ops.cast(factor, g.dtype) for g in gradients]
        return list(gradients), norm, ops.isfinite(norm)

    def apply(self, gradients: Sequence[Any]) -> None:
        """Updates weights, averages and counters with finite gradients."""
        state = self.state
        weights = state.model.trainable_variables
        state.optimizer.apply(gradients, weights)
        if self.ema_decay is not None:
            for average, weight in zip(state.averages, weights, strict=True):
                change = (1.0 - self.ema_decay) * (weight.value - average.value)
                average.assign_add(change)
        state.skipped_in_a_row.assign(0)
        if state.scales:
            steps = state.since_skipped.value + 1
            full = steps >= _STEPS_TO_DOUBLE
            scale = state.loss_scale.value
            state.loss_scale.assign(ops.where(full, 2.0 * scale, scale))
            state.since_skipped.assign(ops.where(full, 0, steps))

    def skip(self) -> None:
        """Counts a skipped update, and halves the loss scale of float16."""
        state = self.state
        state.skipped.assign_add(1)
        state.skipped_in_a_row.assign_add(1)
        if state.scales:
            state.loss_scale.assign(ops.maximum(state.loss_scale.value / 2.0, 1.0))
            state.since_skipped.assign(0)
