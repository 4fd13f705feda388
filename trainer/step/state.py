"""State of a training, and the swap to averaged weights for a validation."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from keras import ops

from transbeam.configs.schema.training import TrainingConfig
from transbeam.model.base.weight_paths import group_by_part

_FIRST_LOSS_SCALE = 2.0**15


class TrainState:
    """All state that an update changes and a checkpoint contains.

    Attributes:
        model: The model, with the random state of its dropout.
        optimizer: The built optimizer.
        averages: The moving average of each trainable weight; empty without
            `training.ema_decay`.
        pruned: The trainable weights that are pruned; empty without `training.pruning`.
        masks: bool. The mask of each of them: False for numbers that are zero, and stay
            zero.
        loss_scale: float32. Factor by which the loss is multiplied before gradients are
            computed, so that float16 can represent them; 1 in other formats.
        since_skipped: int32. Updates since the loss scale last changed.
        skipped: int32. Number of updates skipped so far, because the loss or a gradient
            was not finite.
        skipped_in_a_row: int32. The current number of consecutive skipped updates.
        parts: The places of the trainable weights of each part of the model.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        config: TrainingConfig,
        pruned: Sequence[keras.Variable] = (),
    ):
        self.model = model
        self.optimizer = optimizer
        self.parts = group_by_part(weight.path for weight in model.trainable_variables)
        self.scales = config.precision == "mixed_float16"
        self.loss_scale = _variable(
            _FIRST_LOSS_SCALE if self.scales else 1.0, "float32", "loss_scale"
        )
        self.since_skipped = _variable(0, "int32", "since_skipped")
        self.skipped = _variable(0, "int32", "skipped")
        self.skipped_in_a_row = _variable(0, "int32", "skipped_in_a_row")
        self.averages: list[keras.Variable] = []
        if config.ema_decay is not None:
            self.averages = [
                _beside(weight, ops.copy(weight.value), f"average_{number}")
                for number, weight in enumerate(model.trainable_variables)
            ]
        self.pruned = list(pruned)
        self.masks = [
            _beside(weight, ops.ones(weight.shape, "bool"), f"mask_{number}")
            for number, weight in enumerate(pruned)
        ]
        numbers = {id(w): n for n, w in enumerate(model.trainable_variables)}
        # By the weight's place among all trainable weights.
        self._mask_of = {
            numbers[id(weight)]: mask
            for weight, mask in zip(self.pruned, self.masks, strict=True)
        }

    def last_learning_rate(self) -> float:
        """The learning rate of the last update, or of the first if no update was done.

        The optimizer's attribute `learning_rate` is the rate of the next update.
        """
        schedule = self.optimizer._learning_rate
        return float(schedule(ops.maximum(self.optimizer.iterations - 1, 0)))

    @property
    def counters(self) -> list[keras.Variable]:
        """The loss scale, and counts of updates."""
        return [
            self.loss_scale,
            self.since_skipped,
            self.skipped,
            self.skipped_in_a_row,
        ]

    @property
    def variables(self) -> dict[str, Sequence[keras.Variable]]:
        """All variables: model, optimizer, averages, masks of pruning, and counters."""
        return {
            "model": self.model.variables,
            "optimizer": self.optimizer.variables,
            "average": self.averages,
            "mask": self.masks,
            "counters": self.counters,
        }

    def set_masks(self, masks: Sequence[Any]) -> None:
        """Replaces the masks, and sets what they prune to zero.

        Args:
            masks: bool, one for each weight in `pruned`.
        """
        for mask, value in zip(self.masks, masks, strict=True):
            mask.assign(value)
        self.mask_weights()
        for number, mask in self._mask_of.items():
            for average in self.averages[number : number + 1]:
                average.assign(_masked(average.value, mask))

    def mask_weights(self) -> None:
        """Sets pruned numbers of the weights to zero."""
        weights = self.model.trainable_variables
        for number, mask in self._mask_of.items():
            weights[number].assign(_masked(weights[number].value, mask))

    def mask_gradients(self, gradients: Sequence[Any]) -> list[Any]:
        """Returns the gradients of all trainable weights, zero for pruned numbers."""
        masked = list(gradients)
        for number, mask in self._mask_of.items():
            masked[number] = _masked(masked[number], mask)
        return masked


def _beside(weight: keras.Variable, value: Any, name: str) -> keras.Variable:
    """A variable of a weight's shape; on JAX it is sharded like the weight."""
    layout = getattr(weight, "_layout", None)
    dtype = keras.backend.standardize_dtype(value.dtype)
    return keras.Variable(value, dtype=dtype, trainable=False, layout=layout, name=name)


def _masked(value: Any, mask: keras.Variable) -> Any:
    # Not a product: that would leave -0.0, which takes place in a compressed file.
    return ops.where(mask.value, value, ops.zeros_like(value))


@contextmanager
def averaged(state: TrainState) -> Generator[None, None, None]:
    """A context in which the moving averages, if there are any, replace the weights."""
    # Listed beforehand: merging the adapters inside the context removes variables.
    weights = state.model.trainable_variables if state.averages else []
    pairs = list(zip(weights, state.averages, strict=True))
    _exchange(pairs)
    try:
        yield
    finally:
        _exchange(pairs)


def _exchange(pairs: Sequence[tuple[keras.Variable, keras.Variable]]) -> None:
    for weight, average in pairs:
        old = ops.copy(weight.value)
        weight.assign(average.value)
        average.assign(old)


def _variable(value, dtype: str, name: str) -> keras.Variable:
    return keras.Variable(value, dtype=dtype, trainable=False, name=name)


_STEPS_TO_DOUBLE = 2_000


class UpdateRule:
    """The update around the optimizer: unscaling, clipping, averages, counters.

    All methods use `keras.ops` on variables, which both backends can trace.
    """

    def __init__(self, state: TrainState, config: TrainingConfig):
        self.state = state
        self.clip_norm = config.clip_norm
        self.ema_decay = config.ema_decay
        # (parts, weights): 1 where a weight is of a part.
        parts = state.parts.values()
        self._membership = np.zeros((len(parts), sum(map(len, parts))), np.float32)
        for row, of in enumerate(parts):
            self._membership[row, list(of)] = 1.0

    def finish(self, gradients: Sequence[Any]) -> tuple[list[Any], dict[str, Any], Any]:
        """Unscales and clips gradients; those of pruned numbers become zero.

        Returns:
            The gradients; the norms before clipping, see `build_step`; and whether the
            norm is finite.
        """
        scale = 1.0 / self.state.loss_scale.value
        if self.state.scales:
            gradients = [gradient * scale for gradient in gradients]
        gradients = self.state.mask_gradients(gradients)
        # One sum over a stack: additions one by one are put in another order by graph
        # optimizers, which may differ between the processes of a resumed training.
        squares = ops.stack(
            [ops.sum(ops.square(ops.cast(g, "float32"))) for g in gradients]
        )
        norm = ops.sqrt(ops.sum(squares))
        by_part = ops.sum(self._membership * squares, axis=1)
        norms = {"gradient_norm": norm, "gradient_norms": ops.sqrt(by_part)}
        if self.clip_norm is not None:
            factor = ops.minimum(1.0, self.clip_norm / ops.maximum(norm, 1e-30))
            gradients = [g * ops.cast(factor, g.dtype) for g in gradients]
        return list(gradients), norms, ops.isfinite(norm)

    def apply(self, gradients: Sequence[Any]) -> None:
        """Updates weights, averages and counters with finite gradients."""
        state = self.state
        weights = state.model.trainable_variables
        state.optimizer.apply(gradients, weights)
        # The optimizer's momentum moves a pruned number even without a gradient.
        state.mask_weights()
        if self.ema_decay is not None:
            for average, weight in zip(state.averages, weights, strict=True):
                average.assign_add(
                    (1.0 - self.ema_decay) * (weight.value - average.value)
                )
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
