"""State of a training, and the swap to averaged weights for a validation."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
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
                keras.Variable(
                    ops.copy(weight.value),
                    trainable=False,
                    layout=getattr(weight, "_layout", None),  # on JAX: its sharding
                    name=f"average_{number}",
                )
                for number, weight in enumerate(model.trainable_variables)
            ]

    def last_learning_rate(self) -> float:
        """The learning rate of the last update, or of the first if no update was done.

        The optimizer's attribute `learning_rate` is the rate of the next update.
        """
        schedule = self.optimizer._learning_rate
        return float(schedule(ops.maximum(self.optimizer.iterations - 1, 0)))

    @property
    def counters(self) -> list[keras.Variable]:
        """All variables except those of the model, the optimizer and the averages."""
        return [
            self.loss_scale,
            self.since_skipped,
            self.skipped,
            self.skipped_in_a_row,
        ]

    @property
    def variables(self) -> dict[str, Sequence[keras.Variable]]:
        """All variables: model, optimizer, moving averages and counters."""
        return {
            "model": self.model.variables,
            "optimizer": self.optimizer.variables,
            "average": self.averages,
            "counters": self.counters,
        }


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

    def finish(self, gradients: Sequence[Any]) -> tuple[list[Any], dict[str, Any], Any]:
        """Unscales and clips gradients.

        Returns:
            The gradients; the norms before clipping, see `build_step`; and whether the
            norm is finite.
        """
        scale = 1.0 / self.state.loss_scale.value
        if self.state.scales:
            gradients = [gradient * scale for gradient in gradients]
        squares = [ops.sum(ops.square(ops.cast(g, "float32"))) for g in gradients]
        norm = ops.sqrt(sum(squares[1:], squares[0]))
        by_part = [sum(squares[i] for i in of) for of in self.state.parts.values()]
        norms = {"gradient_norm": norm, "gradient_norms": ops.sqrt(ops.stack(by_part))}
        if self.clip_norm is not None:
            factor = ops.minimum(1.0, self.clip_norm / ops.maximum(norm, 1e-30))
            gradients = [g * ops.cast(factor, g.dtype) for g in gradients]
        return list(gradients), norms, ops.isfinite(norm)

    def apply(self, gradients: Sequence[Any]) -> None:
        """Updates weights, averages and counters with finite gradients."""
        state = self.state
        weights = state.model.trainable_variables
        state.optimizer.apply(gradients, weights)
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
