"""A training run, step by step."""

import hashlib
import json
import math
import time
from pathlib import Path
from typing import Any

import keras

from configs.abilities import check_training
from configs.command import Invocation
from configs.errors import ArtifactError
from configs.files import write_atomically
from configs.fitting import WITH_SEGMENTS
from configs.load import flatten
from configs.memory import peak_memory
from configs.run import RunConfig
from configs.run_folder import Stage, save_config
from model.build import build_model
from model.weights.store import begin_with
from pipeline.manifest import Manifest, read_manifest
from pipeline.objectives import contract
from pipeline.stage import finished_data
from trainer import input as input_pipeline
from trainer.callbacks import Checkpoints, StepLog, TensorBoardLog
from trainer.checkpoint import (
    WEIGHTS,
    Position,
    list_checkpoints,
    restore_checkpoint,
    save_weights,
)
from trainer.evaluate import Evaluation, evaluate
from trainer.losses import masked_accuracy, masked_cross_entropy
from trainer.masking import dynamic_masking
from trainer.optimizers import build_optimizer
from trainer.report import draw_loss
from trainer.schedules import build_schedule

LOG_EVERY = 10


def training_stage(run_folder: Path) -> Stage:
    """Where a run keeps its trained model."""
    return Stage(run_folder, "training", f"transbeam train CONFIG --run {run_folder}")


def training_inputs(config: RunConfig, records_sha256: str) -> dict[str, Any]:
    """What decides the trained weights: keys, records, and what it begins with."""
    sections = ("model.", "training.", "tokenizer.vocabulary_size")
    keys = {
        key: value
        for key, value in flatten(config).items()
        if key == "seed" or key.startswith(sections)
    }
    if config.training.initial_weights:
        path = Path(config.training.initial_weights)
        keys["initial_weights_sha256"] = _sha256(path) if path.is_file() else "missing"
    return {**keys, "records": records_sha256}


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def train(invocation: Invocation) -> dict[str, Any]:
    """Trains and evaluates the model of a run, or finds it trained.

    Returns:
        The stage's result: steps, seconds, and the evaluation.

    Raises:
        UserError: The records are missing, altered, or made for something else.
    """
    config, console = invocation.config, invocation.console
    made = finished_data(config, invocation.run_folder)
    stage = training_stage(invocation.run_folder)
    inputs = training_inputs(config, made["records_sha256"])
    if result := stage.result_if_done(inputs):
        if result.get("imported"):
            raise ArtifactError(
                f"{stage.path}: holds weights as they were imported, and there are no "
                f"records to train on. Make them: {invocation.command('data')}"
            )
        console.result(
            f"skipped: the same records, model and training made {stage.path} before; "
            f"validation loss {result['evaluation']['loss']:.3f}"
        )
        return {**result, "skipped": True}
    for line in stage.differences(inputs):
        console.say(f"trained anew, because {line}")
    if moved := stage.begin(inputs):
        console.say(f"the model trained before is now in {moved}")

    with peak_memory() as peak:
        result = _train(invocation, stage.path)
    result = {"path": str(stage.path), "peak_memory_mb": peak.megabytes, **result}
    stage.finish(inputs, result)
    console.result(result["summary"])
    return result


def _train(invocation: Invocation, folder: Path) -> dict[str, Any]:
    """The work itself, once it is known that it must be done."""
    config, console = invocation.config, invocation.console

    # 1. The records, held against their manifest.
    manifest = read_manifest(invocation.run_folder / "data")
    manifest.check_files()
    input_pipeline.check_contract(manifest, contract(config))

    # 2. The model, and where an earlier attempt left it.
    keras.utils.set_random_seed(config.seed)
    model = build_trainable(config, manifest.vocabulary["size"])
    position = _resume(model, folder / "checkpoints", console.say)
    if config.training.initial_weights and not position.step:
        new = begin_with(model, Path(config.training.initial_weights))
        told = f"; new are {', '.join(new)}" if new else ""
        console.say(f"begun with {config.training.initial_weights}{told}")
    console.say(
        f"{model.count_params():,} parameters, {config.training.steps:,} steps of "
        f"{config.training.batch_size} records, {config.training.precision}"
    )

    # 3. The fit.
    start = time.perf_counter()
    _fit(model, config, manifest, position, folder, invocation)
    seconds = time.perf_counter() - start

    # 4. What came of it.
    console.say("evaluating on the whole validation split")
    evaluation = evaluate(
        model,
        input_pipeline.validation_batches(
            manifest,
            config.training.batch_size,
            dynamic_masking(config, manifest.folder),
        ),
    )
    save_weights(model, folder / WEIGHTS)
    save_config(folder, config)
    draw_loss(folder / "metrics.jsonl", evaluation.unigram_entropy, folder / "loss.png")
    return {
        "summary": describe(evaluation),
        "weights": str(folder / WEIGHTS),
        "loss_curve": str(folder / "loss.png"),
        "parameters": model.count_params(),
        "steps": config.training.steps,
        "seconds": round(seconds, 1),
        "tokens_per_second": round(
            (config.training.steps - position.step)
            * tokens_per_step(config, manifest)
            / seconds
        ),
        "evaluation": evaluation.as_json(),
    }


def build_trainable(config: RunConfig, vocabulary_size: int) -> keras.Model:
    """The model on packed records, compiled, with a built optimizer.

    Raises:
        ConfigError: Its records cannot be trained on yet.
    """
    check_training(config)
    model = build_model(
        config.model,
        config.objective,
        vocabulary_size,
        packed=True,
        segments=config.objective.kind in WITH_SEGMENTS,
        dtype=config.training.precision,
        seed=config.seed,
    )
    schedule = build_schedule(config.training.schedule, config.training.steps)
    optimizer = build_optimizer(
        config.training.optimizer, schedule, model.trainable_variables
    )
    model.compile(
        optimizer=optimizer,
        loss=masked_cross_entropy(),
        weighted_metrics=[masked_accuracy()],
    )
    return model


def _fit(
    model: keras.Model,
    config: RunConfig,
    manifest: Manifest,
    position: Position,
    folder: Path,
    invocation: Invocation,
) -> None:
    training = config.training
    steps_left = training.steps - position.step
    if steps_left <= 0:
        return
    masking = dynamic_masking(config, manifest.folder)
    batches = input_pipeline.training_batches(
        manifest,
        batch_size=training.batch_size,
        shuffle_records=training.shuffle_records,
        seed=config.seed,
        records_read=position.records_read,
        masking=masking,
    )
    validation = input_pipeline.validation_batches(
        manifest, training.batch_size, masking
    )
    with invocation.console.progress(
        "training", training.steps, "steps", start=position.step
    ) as progress:
        steps = StepLog(
            folder / "metrics.jsonl",
            progress,
            step=position.step,
            every=LOG_EVERY,
            tokens_per_step=tokens_per_step(config, manifest),
        )
        checkpoints = Checkpoints(
            folder / "checkpoints",
            steps,
            last_step=training.steps,
            batch_size=training.batch_size,
            keep=training.keep_checkpoints,
            say=invocation.console.warn,
        )
        tensorboard = TensorBoardLog(folder / "tensorboard", steps)
        model.fit(
            batches,
            steps_per_epoch=training.evaluate_every,
            epochs=math.ceil(steps_left / training.evaluate_every),
            validation_data=validation.take(training.validation_batches),
            callbacks=[steps, tensorboard, checkpoints],
            shuffle=False,
            verbose=0,
        )


def _resume(model: keras.Model, folder: Path, say) -> Position:
    """Restores the last checkpoint of an unfinished training, if there is one."""
    checkpoints = list_checkpoints(folder)
    if not checkpoints:
        return Position(step=0, records_read=0)
    position = restore_checkpoint(checkpoints[-1], model)
    _cut_log(folder.parent / "metrics.jsonl", position.step)
    say(f"going on from step {position.step:,} ({checkpoints[-1]})")
    return position


def _cut_log(path: Path, step: int) -> None:
    """Drops lines of steps after the checkpoint: they will be done again."""
    if path.is_file():
        rows = []
        for line in path.read_text("utf-8").splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue  # the line that a crash cut short
        kept = [json.dumps(row) + "\n" for row in rows if row["step"] <= step]
        write_atomically(path, "".join(kept))


def tokens_per_step(config: RunConfig, manifest: Manifest) -> float:
    """Real tokens in a batch on average; padding does not count."""
    length = config.data.sequence_length
    padding = manifest.counts["padding"]["train"] / (
        manifest.counts["records"]["train"] * length
    )
    return config.training.batch_size * length * (1.0 - padding)


def evaluate_run(invocation: Invocation) -> dict[str, Any]:
    """Evaluates the trained weights of a run on its validation split.

    Raises:
        ArtifactError: There is no trained model, or its files are damaged.
    """
    config, console = invocation.config, invocation.console
    made = finished_data(config, invocation.run_folder)
    stage = training_stage(invocation.run_folder)
    stage.require(training_inputs(config, made["records_sha256"]))
    manifest = read_manifest(invocation.run_folder / "data")
    manifest.check_files()
    model = build_trainable(config, manifest.vocabulary["size"])
    path = stage.path / WEIGHTS
    try:
        keras.saving.load_weights(model, path, objects_to_skip=[model.optimizer])
    except (OSError, ValueError, KeyError) as error:
        raise ArtifactError(
            f"{path}: cannot be loaded: {error}. Train again"
        ) from error
    batches = input_pipeline.validation_batches(
        manifest,
        config.training.batch_size,
        dynamic_masking(config, manifest.folder),
    )
    evaluation = evaluate(model, batches)
    console.result(describe(evaluation))
    return evaluation.as_json()


def describe(evaluation: Evaluation) -> str:
    """One line about an evaluation, for people."""
    verdict = (
        "has learned from context"
        if evaluation.nats_below_unigram > 0
        else ("has NOT learned from context")
    )
    return (
        f"validation loss {evaluation.loss:.3f} nats, unigram entropy "
        f"{evaluation.unigram_entropy:.3f}: {evaluation.nats_below_unigram:+.3f} nats "
        f"below it, so the model {verdict}; perplexity {evaluation.perplexity:.1f}, "
        f"accuracy {evaluation.accuracy:.1%} of {evaluation.predictions:,} predictions"
    )
