"""Compiled update and evaluation functions of the current backend."""

import keras

from transbeam.configs.schema.training import TrainingConfig
from transbeam.trainer.distribution.workers import ALONE, Workers
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.step.state import TrainState, UpdateRule


def build_step(
    state: TrainState, loss: Loss, config: TrainingConfig, workers: Workers = ALONE
):
    """Builds the update as one compiled function of a batch.

    Args:
        state: The state that the update changes.
        loss: The loss to minimize.
        config: The `training` section: accumulation, clipping, averages.
        workers: The workers that share the batches; `state` was created in their scope.

    Returns:
        A function from this worker's rows of a batch, as features by name, to a dict of
        values for the whole batch. The function returns without waiting for the device
        to compute these values: `loss` (with smoothing and z-loss), `gradient_norm`
        (before clipping), `gradient_norms` (that of each of `state.parts`, float32
        `(parts,)`), `skipped` (0 or 1), `tokens` (real tokens read), and `sums`
        as in `Loss`.
    """
    rules = UpdateRule(state, config)
    if keras.backend.backend() == "jax":
        from transbeam.trainer.step.on_jax import build
    else:
        from transbeam.trainer.step.on_tensorflow import build
    return build(rules, loss, config.accumulation, workers)


def build_evaluation(model: keras.Model, loss: Loss, workers: Workers = ALONE):
    """Builds a compiled function from a batch to the `answers` of `Loss`.

    Each worker passes the whole batch, runs the model on its own rows, and receives the
    predictions of all workers.
    """
    if keras.backend.backend() == "jax":
        from transbeam.trainer.step.on_jax import build_forward
    else:
        from transbeam.trainer.step.on_tensorflow import build_forward
    return build_forward(model, loss, workers)
