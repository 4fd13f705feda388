"""Setup of a training before its first step: records, model, optimizer."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import keras
import tensorflow as tf

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.schema.run import RunConfig
from transbeam.model.adaptation.freezing import ParameterCount
from transbeam.model.kernels.matmul_dtype import set_matmul_dtype
from transbeam.pipeline.objectives.kinds import contract
from transbeam.pipeline.records.manifest import Manifest, read_manifest
from transbeam.trainer.base.adaptation import adapt
from transbeam.trainer.base.devices import has_gpu
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.base.warm_start import begin
from transbeam.trainer.distillation.distillation_loss import learn_from_teacher
from transbeam.trainer.distribution.workers import Workers
from transbeam.trainer.input.batches import check_contract, rows_of_batches
from transbeam.trainer.input.datasets import data_sets
from transbeam.trainer.loop.checkpoint import (
    check_rows,
    list_checkpoints,
    restore_checkpoint,
)
from transbeam.trainer.loop.matmul_dtype import agree_on_matmul
from transbeam.trainer.loop.metrics_log import cut_metrics
from transbeam.trainer.objectives.losses import Loss, make_loss
from transbeam.trainer.optimizers.build import build_optimizer
from transbeam.trainer.optimizers.schedules import build_schedule
from transbeam.trainer.step.state import TrainState


@dataclass(frozen=True)
class TrainingSetup:
    """Everything that a training needs before its first step.

    Attributes:
        manifest: The manifest of the records.
        model: The model that is evaluated and saved.
        state: State of the trained model, which has further outputs in distillation.
        loss: The loss to minimize.
        parameters: Parameter counts of the model.
        step: The step to resume from; 0 for a new training.
        rows: Records per batch, for each stream.
        matmul_dtype: The dtype in which bfloat16 matrices are multiplied; None without
            mixed_bfloat16.
    """

    manifest: Manifest
    model: keras.Model
    state: TrainState
    loss: Loss
    parameters: ParameterCount
    step: int
    rows: list[int]
    matmul_dtype: str | None


def prepare(invocation: Invocation, folder: Path, workers: Workers) -> TrainingSetup:
    """Checks the inputs of a training and builds model, loss and optimizer.

    Args:
        invocation: The command.
        folder: Folder of the training stage, which has been started.
        workers: All workers of the training.

    Raises:
        UserError: The records are not those of the manifest, the initial weights or the
            teacher do not fit, or the checkpoint is damaged.
    """
    config, console = invocation.config, invocation.console
    training = config.training

    # 1. The records, checked against their manifest.
    manifest = read_manifest(invocation.run_folder / "data")
    manifest.check_files()
    check_contract(manifest, contract(config))
    sets = data_sets(config, manifest)
    for of_another_run, _ in sets[1:]:
        of_another_run.check_files()
    parts = training.accumulation * workers.local_replicas
    rows = rows_of_batches(sets, training.batch_size, parts, workers.place.count)

    # 2. The model, restored from the last checkpoint if there is one.
    if training.deterministic:
        make_deterministic()
    keras.utils.set_random_seed(config.seed)
    is_new = not list_checkpoints(folder / "checkpoints")
    # Before the variables, which the workers create together.
    workers.agree(int(is_new), f"whether there is a checkpoint in {folder}")
    matmul_dtype = None
    if training.precision == "mixed_bfloat16":
        matmul_dtype = agree_on_matmul(folder / "checkpoints", workers, console)
        set_matmul_dtype(matmul_dtype)
    with workers.scope():
        model = build_trainable(config, manifest.vocabulary["size"])
        if is_new and (begun := begin(model, config, manifest)):
            source, new = begun
            told = f"; new are {', '.join(new)}" if new else ""
            console.say(f"begun with {source}{told}")
        trained, loss = learn_from_teacher(
            config,
            model,
            make_loss(config),
            manifest.vocabulary,
            console.say,
            is_new=is_new,
        )
        parameters = adapt(model, training.adaptation, config.seed)
        state = TrainState(trained, _optimizer(config, trained), training)
    step = _resume(state, folder, rows, console.say, workers)
    return TrainingSetup(
        manifest, model, state, loss, parameters, step, rows, matmul_dtype
    )


def _resume(
    state: TrainState,
    folder: Path,
    rows: Sequence[int],
    say: Callable[[str], None],
    workers: Workers,
) -> int:
    """Restores the last checkpoint, if there is one; returns its step, or 0."""
    checkpoints = list_checkpoints(folder / "checkpoints")
    step = restore_checkpoint(checkpoints[-1], state) if checkpoints else 0
    if checkpoints:
        check_rows(checkpoints[-1], rows)
    workers.agree(step, f"the step of the last checkpoint in {folder}")
    if workers.is_chief:
        cut_metrics(folder, step)
    if not checkpoints:
        return 0
    say(f"going on from step {step:,} ({checkpoints[-1]})")
    return step


_FLAG = "--xla_gpu_deterministic_ops=true"


def make_deterministic() -> None:
    """Makes TensorFlow and XLA ops bitwise deterministic, which can be slower.

    Raises:
        ConfigError: On JAX with a GPU, `XLA_FLAGS` lacks the flag that this needs.
    """
    on_gpu = keras.backend.backend() == "jax" and has_gpu()
    if on_gpu and _FLAG not in os.environ.get("XLA_FLAGS", ""):
        raise ConfigError(
            "training.deterministic: XLA has to know of it before it begins. Set it in "
            f"the environment: XLA_FLAGS={_FLAG}"
        )
    tf.config.experimental.enable_op_determinism()


def _optimizer(config: RunConfig, model: keras.Model) -> keras.optimizers.Optimizer:
    training = config.training
    schedule = build_schedule(
        training.schedule, training.steps, config.model.hidden_dim
    )
    return build_optimizer(training.optimizer, schedule, model.trainable_variables)
