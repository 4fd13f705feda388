"""A training run, step by step."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
from markupsafe import Markup

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.model_files import (
    IMPORTED,
    TOKENIZER,
    WEIGHTS,
    training_stage,
)
from transbeam.configs.loader.run_folder import Stage, fingerprint, save_config
from transbeam.configs.loader.warmup import STEPS, WARMUP_STEPS
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.training import ModelParallelConfig
from transbeam.configs.system.memory import peak_memory
from transbeam.model.weights.training_checkpoints import list_checkpoints
from transbeam.pipeline.evaluation_set import read_validation_documents
from transbeam.pipeline.records.epochs import batches_per_epoch, settle_steps
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.pipeline.stage import finished_data
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.trainer.analysis.training_analysis import TrainingAnalysis
from transbeam.trainer.base.adaptation import ADAPTERS, finish_adaptation
from transbeam.trainer.base.sparsity_report import report_sparsity
from transbeam.trainer.base.training_stage import (
    build_trainable,
    missing_weights,
    training_inputs,
)
from transbeam.trainer.base.warm_start import check_origin
from transbeam.trainer.base.weight_files import copy_to_host, save_weights
from transbeam.trainer.distribution.initialize import join_workers
from transbeam.trainer.distribution.rendezvous import Rendezvous
from transbeam.trainer.distribution.rendezvous_sides import open_rendezvous
from transbeam.trainer.distribution.workers import Workers
from transbeam.trainer.evaluation.collectors import EvaluatedRecord
from transbeam.trainer.evaluation.evaluation_context import EvaluationContext
from transbeam.trainer.evaluation.evaluation_loop import (
    EvaluationMetrics,
    describe,
    evaluate_split,
    on_host,
    validate,
)
from transbeam.trainer.evaluation.html_examples import examples
from transbeam.trainer.evaluation.sample_predictions import FirstRows, samples
from transbeam.trainer.input.batches import training_batches, validation_batches
from transbeam.trainer.input.datasets import data_sets
from transbeam.trainer.input.dynamic_masking import dynamic_masking
from transbeam.trainer.loop.checkpoint import (
    Checkpoints,
    best_checkpoint,
    restore_checkpoint,
)
from transbeam.trainer.loop.metrics_file import read_metrics, time_and_tokens
from transbeam.trainer.loop.metrics_log import TrainingLog
from transbeam.trainer.loop.mfu import least_step_seconds
from transbeam.trainer.loop.out_of_memory import memory_advice
from transbeam.trainer.loop.training_loop import (
    Measurements,
    run_steps,
    stop_on_signals,
)
from transbeam.trainer.objectives.losses import make_loss
from transbeam.trainer.objectives.objective_metrics import make_scorers
from transbeam.trainer.objectives.targets import make_targets
from transbeam.trainer.pages.training_page import write_report
from transbeam.trainer.step.build import build_evaluation, build_step
from transbeam.trainer.step.state import averaged
from transbeam.trainer.training_setup import TrainingSetup, can_go_on, prepare


def train(
    invocation: Invocation, rendezvous: Rendezvous | None = None
) -> dict[str, Any]:
    """Trains and evaluates the model of a run, unless that was done before.

    Args:
        invocation: The command.
        rendezvous: The open rendezvous of all workers, from
            `transbeam.trainer.distribution.rendezvous_sides.open_rendezvous`; if left
            out, it is made here.

    Returns:
        The stage's result: steps, seconds, and the evaluation.

    Raises:
        UserError: The records are missing, were altered, or belong to another
            configuration; or another worker is gone or was started with another
            configuration.
    """
    with ExitStack() as stack:
        if rendezvous is None:
            say = invocation.console.warn
            rendezvous = stack.enter_context(open_rendezvous(invocation.config, say))
        return _train_stage(invocation, rendezvous)


def _train_stage(invocation: Invocation, rendezvous: Rendezvous) -> dict[str, Any]:
    """Skips, resumes or starts the training stage, in sync with other workers."""
    config, console = invocation.config, invocation.console
    made = finished_data(config, invocation.run_folder)
    stage = training_stage(invocation.run_folder)
    if not made.get(IMPORTED):
        config = settle_steps(config, invocation.run_folder / "data", console.say)
    inputs = training_inputs(config, made["records_sha256"], stage.inputs())
    for path in missing_weights(config.training) if stage.inputs() else ():
        console.warn(
            f"{path}: not found, so it is not compared with that of {stage.path}"
        )
    # The configuration to train and save has the length and the warm-up in steps.
    training = config.training.with_warmup(inputs[WARMUP_STEPS])
    config = replace(config, training=training)
    invocation = replace(invocation, config=config)
    # All workers must have the same inputs before an earlier training is moved aside.
    rendezvous.assert_equal({**inputs, "training in the run folder": _found(stage)})
    # The others read the folder only after the chief has restored or moved stages.
    taken_up = rendezvous.place.is_chief and stage.take_up(inputs)
    if any(rendezvous.exchange(taken_up)):
        console.say(f"restored from {invocation.run_folder / 'superseded'}")
    if result := stage.result_if_done(inputs):
        if result.get(IMPORTED):
            raise ArtifactError(
                f"{stage.path}: contains imported weights, and there are no records "
                f"to train on. Make them: {invocation.command('data')}"
            )
        console.result(
            f"skipped: {stage.path} was made from the same records, model and "
            f"training; validation loss {result['evaluation']['loss']:.3f}"
        )
        return {**result, "skipped": True}
    checkpoints = list_checkpoints(stage.path / "checkpoints")
    goes_on = can_go_on(stage, inputs, training.schedule)
    if not goes_on and (stage.differences(inputs) or not checkpoints):
        manifest = read_manifest(invocation.run_folder / "data")
        check_origin(config, invocation.run_folder, manifest)
        data_sets(config, manifest)
    with join_workers(config.training, rendezvous) as workers:
        return _begin_and_train(invocation, stage, inputs, workers, goes_on)


def _found(stage: Stage) -> str:
    """Describes the training found in the folder: inputs, progress, checkpoint."""
    if not stage.exists:
        return "none"
    state = "finished" if (stage.path / "stage.json").exists() else "unfinished"
    checkpoints = list_checkpoints(stage.path / "checkpoints")
    last = checkpoints[-1].name if checkpoints else "no checkpoint"
    return f"{fingerprint(stage.inputs())} ({state}, {last})"


def _begin_and_train(
    invocation: Invocation,
    stage: Stage,
    inputs: Mapping[str, Any],
    workers: Workers,
    goes_on: bool,
) -> dict[str, Any]:
    config, console = invocation.config, invocation.console
    other, moved, before = [], None, stage.inputs().get(STEPS)
    if workers.is_chief and goes_on:
        moved = stage.extend(inputs, unchanging=("checkpoints",))
    elif workers.is_chief:
        other, moved = stage.differences(inputs), stage.begin(inputs)
    advice = memory_advice(config, stage.path / "checkpoints", workers.replicas)
    with peak_memory() as peak, advice:
        try:
            workers.wait()  # until the chief has started the stage
            meaning = f"whether {stage.path} has been started (1) or not (0)"
            workers.agree(int(stage.exists), meaning)
            training = prepare(invocation, stage.path, workers)
            measure = _validation(training, config, workers)
            if (metric := config.training.best_metric) is not None:
                _check_metric(metric, measure(1))
        except BaseException:
            stage.take_back(moved)
            raise
        for line in other:
            console.say(f"retrained, because {line}")
        if goes_on:
            console.say(
                f"planned for {config.training.total_steps:,} steps now, not {before:,}"
            )
        if moved:
            console.say(f"the earlier model is now in {moved}")
        result = _train(training, invocation, stage.path, workers, measure)
    result = {"path": str(stage.path), "peak_memory_mb": peak.megabytes, **result}
    if workers.is_chief:
        stage.finish(inputs, result)
    console.result(result["summary"])
    return result


def _train(
    prepared: TrainingSetup,
    invocation: Invocation,
    folder: Path,
    workers: Workers,
    measure: Callable[[int], EvaluationMetrics],
) -> dict[str, Any]:
    """Trains, evaluates, and writes weights and report, after all checks."""
    config, console = invocation.config, invocation.console
    training, model, state = config.training, prepared.model, prepared.state
    manifest, counted = prepared.manifest, prepared.parameters
    counts = counted if counted.frozen else f"{counted.total:,} parameters"
    console.say(
        f"{counts}, {training.total_steps:,} steps of {training.batch_size} records, "
        f"{training.precision}{workers.describe()}"
    )

    # 1. The steps.
    _fit(prepared, invocation, workers, measure)
    skipped = int(state.skipped.numpy())

    # 2. The final weights and their evaluation.
    workers.wait()  # until the chief has written the last checkpoint
    metric = training.best_metric or "loss"
    best = best_checkpoint(folder / "checkpoints", metric)
    if training.final_weights == "best" and best is not None:
        console.say(f"the best {metric} of validation was at {best.name}")
        restore_checkpoint(best, state)
    if manifest.has_validation:
        console.say("evaluating on the whole validation split")
    else:
        console.warn(
            "there are no validation records: the metrics below are those of training "
            "records, not of new text"
        )
    with averaged(state):
        if finish_adaptation(model, folder if workers.is_chief else None):
            console.say(f"merged the adapters; they are also in {folder / ADAPTERS}")
        masking = dynamic_masking(config, manifest.folder)
        forward = build_evaluation(model, make_loss(config), workers)
        first = FirstRows(make_targets(config.objective)[0], training.samples)
        evaluation = evaluate_split(
            config, forward, manifest, masking, collectors=[first]
        )
        shown, pruned = Markup(), {}
        if workers.is_chief:
            if training.pruning:
                values = {w.path: copy_to_host(w) for w in model.weights}
                targets = [weight.path for weight in state.pruned]
                pruned = {"pruned": report_sparsity(values, targets, console)}
            save_weights(model, folder / WEIGHTS)
            if first.rows:
                shown = _samples(prepared, first.rows, invocation)
    rows = read_metrics(folder)
    result = {
        "summary": describe(
            evaluation, "validation" if manifest.has_validation else "training"
        ),
        "weights": str(folder / WEIGHTS),
        "parameters": model.count_params(),
        "trained_parameters": counted.trainable,
        "steps": training.total_steps,
        "epochs": float(training.total_steps / batches_per_epoch(config, manifest)),
        "skipped_steps": skipped,
        "matmul_dtype": prepared.matmul_dtype,
        **pruned,
        **time_and_tokens(rows),
        "evaluation": evaluation.as_json(),
    }
    if workers.is_chief:
        save_config(folder, config)
        result |= write_report(folder, config, rows, result, shown)
    return result


def _validation(
    prepared: TrainingSetup, config: RunConfig, workers: Workers
) -> Callable[[int], EvaluationMetrics]:
    """Makes a function that evaluates the model on so many validation batches."""
    state, manifest = prepared.state, prepared.manifest
    masking = dynamic_masking(config, manifest.folder)
    batches = validation_batches(manifest, config.training.batch_size, masking)
    forward = build_evaluation(state.model, prepared.loss, workers)
    scorers = make_scorers(config.objective, config.evaluation)

    def measure(number: int) -> EvaluationMetrics:
        with averaged(state):
            return validate(forward, scorers, on_host(batches.take(number)))

    return measure


def _check_metric(name: str, found: EvaluationMetrics) -> None:
    """Checks before the training that its validations measure a metric."""
    if name not in (known := found.as_json()):
        raise ConfigError(
            f"training.best_metric={name}: no metric of the validation. Choose one of "
            f"{', '.join(sorted(known))}"
        )


def _fit(
    prepared: TrainingSetup,
    invocation: Invocation,
    workers: Workers,
    measure: Callable[[int], EvaluationMetrics],
) -> None:
    """Runs the remaining training steps."""
    config, console = invocation.config, invocation.console
    state, manifest, step = prepared.state, prepared.manifest, prepared.step
    training, writes = config.training, workers.is_chief
    folder = training_stage(invocation.run_folder).path
    if step >= training.total_steps:
        return
    masking = dynamic_masking(config, manifest.folder)
    batches = training_batches(
        data_sets(config, manifest),
        batch_size=training.batch_size,
        shuffle_records=training.shuffle_records,
        seed=config.seed,
        batches_read=step,
        masking=masking,
        accumulation=training.accumulation * workers.local_replicas,
        worker=(workers.place.number, workers.place.count),
    )
    is_tensorflow = keras.backend.backend() == "tensorflow"

    analysis = None
    if training.analyze_every and writes:
        special = load_tokenizer(manifest.folder / TOKENIZER).special
        analysis = TrainingAnalysis(config, manifest, special, folder, step)

    def analyze(at_step: int) -> Mapping[str, float]:
        return analysis(at_step, prepared.model) if analysis else {}

    with console.progress(
        "training", training.total_steps, "steps", start=step
    ) as progress:
        log = TrainingLog(
            folder,
            progress,
            state,
            step=step,
            every=training.log_every,
            max_skipped=training.max_skipped_steps,
            writes=writes,
            step_seconds=least_step_seconds(
                config, manifest.vocabulary["size"], workers.replicas
            ),
        )
        checkpoints = Checkpoints(
            folder / "checkpoints",
            training.keep_checkpoints,
            writes,
            prepared.rows,
            prepared.matmul_dtype,
            training.best_metric or "loss",
        )
        steps_left = training.total_steps - step
        try:
            checkpoints.require_space(
                state, math.ceil(steps_left / training.evaluate_every)
            )
            run_steps(
                build_step(state, prepared.loss, training, workers),
                # Tensors on TensorFlow, else NumPy arrays.
                iter(batches) if is_tensorflow else on_host(batches),
                Measurements(partial(measure, training.validation_batches), analyze),
                state=state,
                config=training,
                log=log,
                checkpoints=checkpoints,
                stopping=stop_on_signals(console.warn, workers),
            )
        finally:
            checkpoints.close()
            log.close()


def _samples(
    prepared: TrainingSetup, rows: Sequence[EvaluatedRecord], invocation: Invocation
) -> Markup:
    """Predictions for the first validation records, as HTML."""
    config, manifest = invocation.config, prepared.manifest
    in_parts = isinstance(config.training.distribution, ModelParallelConfig)
    # A model spread over several devices may be too large for one: use the host.
    with keras.device("cpu:0") if in_parts else nullcontext():
        # A copy local to this worker, because the others do not run these predictions.
        model = build_trainable(config, manifest.vocabulary["size"])
        model.set_weights([copy_to_host(v) for v in prepared.model.weights])
        context = EvaluationContext(
            config,
            manifest,
            read_validation_documents(manifest, config.data),
            load_tokenizer(manifest.folder / TOKENIZER),
            model,
            invocation.console,
        )
        return examples(samples(context, rows), context.held_out)
