"""What an update changes, and what a validation exchanges."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import keras
from keras import ops

from transbeam.configs.schema.training import TrainingConfig

_FIRST_LOSS_SCALE = 2.0**15


class TrainState:
    """All that an update changes, and a checkpoint holds.

    Attributes:
        model: Its weights, and the random state of its dropout.
        optimizer: Built.
        averages: The moving average of each trainable weight; none without
            `training.ema_decay`.
        loss_scale: float32. What the loss is multiplied with before gradients are
            taken, so that float16 can hold them; 1 in other formats.
        since_skipped: int32. Updates since the loss scale last changed.
        skipped: int32. Updates left out so far, because they were not finite.
        skipped_in_a_row: int32. Of these, the last ones without one in between.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        config: TrainingConfig,
    ):
        self.model = model
        self.optimizer = optimizer
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
                    layout=getattr(weight, "_layout", None),  # on JAX: where it lies
                    name=f"average_{number}",
                )
                for number, weight in enumerate(model.trainable_variables)
            ]

    def last_learning_rate(self) -> float:
        """What the last update was made with; before the first, what that one will be.

        The optimizer's own word is for the update to come.
        """
        schedule = self.optimizer._learning_rate
        return float(schedule(ops.maximum(self.optimizer.iterations - 1, 0)))

    @property
    def counters(self) -> list[keras.Variable]:
        """What is neither of the model nor of the optimizer nor an average."""
        return [
            self.loss_scale,
            self.since_skipped,
            self.skipped,
            self.skipped_in_a_row,
        ]

    @property
    def variables(self) -> dict[str, Sequence[keras.Variable]]:
        """Everything, by the part it belongs to."""
        return {
            "model": self.model.variables,
            "optimizer": self.optimizer.variables,
            "average": self.averages,
            "counters": self.counters,
        }


@contextmanager
def averaged(state: TrainState) -> Generator[None, None, None]:
    """Inside, the model has the moving averages in place of its weights, if any."""
    # Those of now: inside, adapters may be merged and be gone.
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
