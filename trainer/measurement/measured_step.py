"""The forward pass and the update of a run, as calls that wait for their result."""

from collections.abc import Callable
from typing import Any

import keras

from transbeam.configs.schema.run import RunConfig
from transbeam.model.kernels.matmul_dtype import choose_matmul_dtype, set_matmul_dtype
from transbeam.trainer.base.adaptation import adapt
from transbeam.trainer.base.determinism import make_deterministic
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.loop.weight_pruner import prunable_weights
from transbeam.trainer.measurement.random_batch import random_batch, with_static_masks
from transbeam.trainer.objectives.losses import make_loss
from transbeam.trainer.optimizers.build import build_optimizer
from transbeam.trainer.optimizers.schedules import build_schedule
from transbeam.trainer.step.build import build_evaluation, build_step
from transbeam.trainer.step.state import TrainState

_ANY_STEPS = 100_000  # which have no effect on the time of one


def build_measured_step(
    run: RunConfig, vocabulary_size: int
) -> dict[str, Callable[[], Any]]:
    """Builds a run's model with random weights, its update, and a batch of records.

    A teacher is left out, and so are other devices than the first one.

    Args:
        run: The run.
        vocabulary_size: The vocabulary size of its tokenizer.

    Returns:
        `forward` and `step`; each returns when its result is on the host.

    Raises:
        ConfigError: A pattern of the configuration matches no weight.
    """
    run = with_static_masks(run)
    training = run.training
    if training.steps is None:  # the records of its epochs have not been counted
        training = training.with_steps(_ANY_STEPS).with_warmup()
    if training.deterministic:
        make_deterministic()
    keras.utils.set_random_seed(run.seed)
    if training.precision == "mixed_bfloat16":
        set_matmul_dtype(choose_matmul_dtype().dtype)
    model, loss = build_trainable(run, vocabulary_size), make_loss(run)
    adapt(model, training.adaptation, run.seed)
    steps = training.total_steps
    schedule = build_schedule(training.schedule, steps, run.model.hidden_dim)
    optimizer = build_optimizer(training.optimizer, schedule, model.trainable_variables)
    pruned = prunable_weights(model, training.pruning)
    state = TrainState(model, optimizer, training, pruned)
    update = build_step(state, loss, training)
    forward = build_evaluation(model, loss)
    batch = {
        name: keras.ops.convert_to_tensor(values)
        for name, values in random_batch(run, vocabulary_size).items()
    }

    def wait(result: Any) -> None:
        keras.tree.map_structure(keras.ops.convert_to_numpy, result)

    return {
        "forward": lambda: wait(forward(batch)),
        "step": lambda: wait(update(batch)["loss"]),
    }
