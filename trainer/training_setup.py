"""Setup of a training before its first step: records, model, optimizer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.run_folder import Stage, different_keys
from transbeam.configs.loader.warmup import STEPS
from transbeam.configs.schema.objectives.objective import EmbeddingObjective
from transbeam.configs.schema.schedules import ENDLESS, Schedule, common_steps
from transbeam.model.adaptation.freezing import ParameterCount
from transbeam.model.kernels.matmul_dtype import (
    MatmulChoice,
    choose_matmul_dtype,
    set_matmul_dtype,
)
from transbeam.model.kernels.matmul_measurement import DTYPES
from transbeam.model.weights.training_checkpoints import (
    checkpoint_step,
    list_checkpoints,
)
from transbeam.pipeline.objectives.kinds import contract
from transbeam.pipeline.records.manifest import Manifest, read_manifest
from transbeam.trainer.base.adaptation import adapt
from transbeam.trainer.base.determinism import make_deterministic
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.base.warm_start import begin
from transbeam.trainer.distillation.distillation_loss import learn_from_teacher
from transbeam.trainer.distribution.workers import Workers
from transbeam.trainer.input.batches import check_contract, rows_of_batches
from transbeam.trainer.input.datasets import data_sets
from transbeam.trainer.loop.checkpoint import (
    check_rows,
    read_matmul_dtype,
    restore_checkpoint,
)
from transbeam.trainer.loop.metrics_log import cut_metrics
from transbeam.trainer.loop.weight_pruner import prunable_weights
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
        UserError: The records differ from the manifest, the initial weights or the
            teacher do not fit the model, or the checkpoint is damaged.
    """
    config, console = invocation.config, invocation.console
    training = config.training

    # 1. The records, checked against their manifest.
    manifest = read_manifest(invocation.run_folder / "data")
    manifest.check_files()
    check_contract(manifest, contract(config))
    sets = data_sets(config, manifest)
    for other, _ in sets[1:]:
        other.check_files()
    parts = training.accumulation * workers.local_replicas
    rows = rows_of_batches(sets, training.batch_size, parts, workers.place.count)
    if isinstance(config.objective, EmbeddingObjective):
        check_pairs(rows, training.accumulation, workers.replicas)

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
        if is_new and (warm := begin(model, config, manifest)):
            source, new = warm
            more = f"; newly initialized: {', '.join(new)}" if new else ""
            console.say(f"initialized from {source}{more}")
        trained, loss = learn_from_teacher(
            config,
            model,
            make_loss(config),
            manifest.vocabulary,
            console.say,
            is_new=is_new,
        )
        parameters = adapt(model, training.adaptation, config.seed)
        schedule = build_schedule(
            training.schedule, training.total_steps, config.model.hidden_dim
        )
        optimizer = build_optimizer(
            training.optimizer, schedule, trained.trainable_variables
        )
        pruned = prunable_weights(model, training.pruning)
        state = TrainState(trained, optimizer, training, pruned)
    step = _resume(state, folder, rows, console.say, workers)
    return TrainingSetup(
        manifest, model, state, loss, parameters, step, rows, matmul_dtype
    )


def check_pairs(rows: Sequence[int], accumulation: int, replicas: int) -> None:
    """Checks that each micro-batch of a replica has pairs to compare with each other.

    Args:
        rows: Records per batch, for each stream.
        accumulation: Micro-batches per batch.
        replicas: Number of replicas that share each batch.

    Raises:
        ConfigError: A micro-batch of a replica has a single pair.

    Example:
    >>> check_pairs([8], accumulation=2, replicas=4)
    Traceback (most recent call last):
    ConfigError: training.batch_size: a batch of 8 pairs, in 2 micro-batches on 4 ...
    """
    if min(rows) // (accumulation * replicas) < 2:
        raise ConfigError(
            f"training.batch_size: a batch of {min(rows)} pairs, in {accumulation} "
            f"micro-batches on {replicas} replicas, leaves one pair to each, and "
            "objective.kind=contrastive_pairs compares a pair with the others of its "
            "micro-batch on the same replica. Raise it, or lower training.accumulation"
        )


def _resume(
    state: TrainState,
    folder: Path,
    rows: Sequence[int],
    say: Callable[[str], None],
    workers: Workers,
) -> int:
    """Restores the last checkpoint, if there is one; returns its step, or 0."""
    checkpoints, step = list_checkpoints(folder / "checkpoints"), 0
    if checkpoints:
        step = restore_checkpoint(checkpoints[-1], state)
        check_rows(checkpoints[-1], rows)
    workers.agree(step, f"the step of the last checkpoint in {folder}")
    if workers.is_chief:
        cut_metrics(folder, step)
    if checkpoints:
        say(f"going on from step {step:,} ({checkpoints[-1]})")
    return step


def agree_on_matmul(checkpoints: Path, workers: Workers, console: Console) -> str:
    """Chooses the dtype in which all workers multiply bfloat16 matrices.

    A resumed training keeps the dtype of its last checkpoint: otherwise its results
    would not be bitwise equal to an uninterrupted training. A new training takes the
    dtype that is faster on the chief's machine.

    Args:
        checkpoints: The folder of the training's checkpoints.
        workers: All workers of the training.
        console: Prints the choice, as a warning if the measurement failed.

    Returns:
        `bfloat16`, or `float32` if matrices are converted to float32 before the
        product.

    Raises:
        ArtifactError: The last checkpoint is damaged.
        ConfigError: See `choose_matmul_dtype`.
    """
    dtype = DTYPES[0]
    if workers.is_chief:
        choice = _kept(checkpoints) or choose_matmul_dtype()
        (console.warn if choice.failed else console.say)(str(choice))
        dtype = choice.dtype
    return DTYPES[workers.from_chief(DTYPES.index(dtype))]


def _kept(folder: Path) -> MatmulChoice | None:
    for path in list_checkpoints(folder)[-1:]:
        if (dtype := read_matmul_dtype(path)) is not None:
            return MatmulChoice(dtype, f"they were for {path}")
    return None


def can_go_on(stage: Stage, inputs: Mapping[str, Any], schedule: Schedule) -> bool:
    """Returns whether an earlier training can be continued to another number of steps.

    The new inputs may differ only in the number of steps, and every step up to the last
    checkpoint must have the same learning rate in the old and the new schedule.

    Args:
        stage: The training's stage, finished or not.
        inputs: The training stage's inputs with the new number of steps.
        schedule: The schedule for the new number of steps, with its warm-up as a number
            of steps.

    Raises:
        ArtifactError: The training is finished, the new number of steps is larger, and
            the learning rate has already decayed toward the end of the old schedule.
    """
    there = stage.inputs()
    checkpoints = list_checkpoints(stage.path / "checkpoints")
    if not checkpoints or not stage.is_resumable:
        return False
    if different_keys(there, inputs) != [STEPS]:
        return False
    before, steps = there[STEPS], inputs[STEPS]
    if checkpoint_step(checkpoints[-1]) <= common_steps(schedule, before, steps):
        return True
    if stage.is_finished and steps > before:
        endless = ", ".join(kind.kind for kind in ENDLESS)
        raise ArtifactError(
            f"{stage.path}: its {before:,} steps are done, and the learning rate went "
            f"down to their end (training.schedule.kind={schedule.kind}): going on to "
            f"{steps:,} would not give what so many steps in one go give. Instead, "
            "either\n"
            f"  retrain all {steps:,}: rename {stage.path} first, and it is kept;\n"
            f"  or begin another run with its weights, for {steps - before:,} steps: "
            f"--run OTHER --set model.init_from={stage.run_folder} "
            f"--set {STEPS}={steps - before};\n"
            f"  or leave {STEPS}={before}. With a schedule of the kinds {endless}, "
            "more steps go on where a training ended"
        )
    return False
