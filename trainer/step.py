"""One update of a model's weights, the same on every backend.

    loss = sum over all real targets of a batch / how many there are

An update may be made of several micro-batches, which take less memory: their gradients
are added up, each already divided by what the whole batch has, so nothing tells them
from the gradient of the batch in one piece. Then gradients are clipped, once; and if
they are not finite, the weights stay what they were.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
from keras import ops

from configs.training import TrainingConfig
from model.kernels import is_plain
from model.unscored import without_scores
from trainer.distribution.workers import ALONE, Workers
from trainer.losses import Loss

Batch = Mapping[str, Any]
Numbers = dict[str, Any]

_FIRST_LOSS_SCALE = 2.0**15
_STEPS_TO_DOUBLE = 2_000


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


class Rules:
    """What is done with gradients before the optimizer has them, and after it.

    Everything here is `keras.ops` on variables, for both backends to trace.
    """

    def __init__(self, state: TrainState, config: TrainingConfig):
        self.state = state
        self.clip_norm = config.clip_norm
        self.ema_decay = config.ema_decay

    def finish(self, gradients: Sequence[Any]) -> tuple[list[Any], Any, Any]:
        """Gradients unscaled and clipped, their norm, and whether it is finite."""
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
        """Counts an update that is left out; float16 tries a smaller scale next."""
        state = self.state
        state.skipped.assign_add(1)
        state.skipped_in_a_row.assign_add(1)
        if state.scales:
            state.loss_scale.assign(ops.maximum(state.loss_scale.value / 2.0, 1.0))
            state.since_skipped.assign(0)


def build_step(
    state: TrainState, loss: Loss, config: TrainingConfig, workers: Workers = ALONE
):
    """The update as one compiled function of a batch.

    Args:
        state: What it changes.
        loss: What it makes small.
        config: The `training` section: accumulation, clipping, averages.
        workers: Who shares the batches; `state` was made in their scope.

    Returns:
        A function from this worker's rows of a batch, features by name, to numbers of
        the whole batch that are not waited for:
        `loss` (with smoothing and z-loss), `gradient_norm` (before clipping),
        `skipped` (0 or 1), `tokens` (real ones read), and `sums` as `Loss` has them.
    """
    rules = Rules(state, config)
    if keras.backend.backend() == "jax":
        from trainer.step_jax import build
    else:
        from trainer.step_tensorflow import build
    return build(rules, loss, config.accumulation, workers)


def build_evaluation(model: keras.Model, loss: Loss, workers: Workers = ALONE):
    """A compiled function from a batch to the `answers` of `Loss`.

    Each worker has the whole batch, answers for its rows, and gets the answers of all.
    """
    if keras.backend.backend() == "jax":
        from trainer.step_jax import build_forward
    else:
        from trainer.step_tensorflow import build_forward
    return build_forward(model, loss, workers)


def outputs_to_learn_from(
    model: keras.Model, loss: Loss, whole: bool = False
) -> Callable[[Batch], Mapping[str, Any]]:
    """From a batch to what the loss reads of a model in training.

    Scores of a vocabulary are left to the loss, unless it reads them.

    Args:
        model: Is trained.
        loss: What it makes small.
        whole: Whether scores are to be made in one piece in any case.
    """
    whole = whole or loss.reads_scores or is_plain()
    unscored = None if whole else without_scores(model)
    called = unscored or model
    return lambda batch: called(inputs_of(model, batch), training=True)


def inputs_of(model: keras.Model, batch: Batch) -> Batch:
    """The features that the model reads."""
    return {tensor.name: batch[tensor.name] for tensor in model.inputs}


def tokens_in(batch: Batch) -> Any:
    """Real tokens of a batch, of both sides of a pair; of images, how many: float32."""
    rows = [ids for name, ids in batch.items() if name.endswith("document_ids")]
    if not rows:
        return ops.cast(ops.shape(next(iter(batch.values())))[0], "float32")
    return sum(ops.sum(ops.cast(ops.greater(ids, 0), "float32")) for ids in rows)


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


def in_parts(batch: Batch, parts: int) -> Batch:
    """Each feature with a new first axis: (B, ...) becomes (parts, B / parts, ...)."""
    return {
        name: ops.reshape(x, (parts, -1, *x.shape[1:])) for name, x in batch.items()
    }


def _variable(value, dtype: str, name: str) -> keras.Variable:
    return keras.Variable(value, dtype=dtype, trainable=False, name=name)
