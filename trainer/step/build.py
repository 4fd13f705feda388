"""Updates and evaluations as compiled functions, by the backend there is."""

import keras

from transbeam.configs.schema.training import TrainingConfig
from transbeam.trainer.distribution.workers import ALONE, Workers
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.step.state import TrainState
from transbeam.trainer.step.update_rule import UpdateRule


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
    rules = UpdateRule(state, config)
    if keras.backend.backend() == "jax":
        from transbeam.trainer.step.on_jax import build
    else:
        from transbeam.trainer.step.on_tensorflow import build
    return build(rules, loss, config.accumulation, workers)


def build_evaluation(model: keras.Model, loss: Loss, workers: Workers = ALONE):
    """A compiled function from a batch to the `answers` of `Loss`.

    Each worker has the whole batch, answers for its rows, and gets the answers of all.
    """
    if keras.backend.backend() == "jax":
        from transbeam.trainer.step.on_jax import build_forward
    else:
        from transbeam.trainer.step.on_tensorflow import build_forward
    return build_forward(model, loss, workers)
