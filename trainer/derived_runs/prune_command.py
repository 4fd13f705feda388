"""`transbeam prune`: derives a run with fewer heads and fewer feed-forward units.

The folder's layout is described in `transbeam.trainer.derived_runs.derived_run`.
Removes the heads and units whose removal changes the loss on the run's own training
records least, to first order; see `transbeam.model.adaptation.structured_pruning`.
Heads may instead be chosen by a score of the run's analysis. The pruned model's
predictions differ from the source run's: train the pruned model further, for example
with the source run as its teacher.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.model_files import (
    find_model_weights,
    training_stage,
)
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.model.adaptation.pruned_config import (
    find_attention_config,
    pruned_config,
)
from transbeam.model.adaptation.structured_pruning import (
    OUTPUT,
    importances,
    part_widths,
    select_most_important,
    slice_weights,
)
from transbeam.model.weights.assign import variables_by_path
from transbeam.model.weights.safetensors_store import load_matching_weights
from transbeam.pipeline.objectives.kinds import contract
from transbeam.pipeline.records.manifest import FILE, Manifest, read_manifest
from transbeam.pipeline.stage import data_stage
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.base.warm_start import Origin, find_origin
from transbeam.trainer.derived_runs.derived_run import (
    DerivedModel,
    DerivedRun,
    build_smaller,
    folder_for,
    origin_tokenizer,
    pruned_run_config,
)
from transbeam.trainer.derived_runs.head_scores import (
    GRADIENT,
    mean_scores,
    read_head_scores,
)
from transbeam.trainer.input.batches import check_contract, training_batches
from transbeam.trainer.input.dynamic_masking import dynamic_masking
from transbeam.trainer.objectives.losses import Loss, make_loss
from transbeam.trainer.step.batch import Batch, outputs_to_learn_from

# Small, because gradients of opposite sign cancel within a batch.
_RECORDS = 8
BATCHES = 16
_FEEDFORWARD = "/feedforward"

Parts = Mapping[str, np.ndarray]


def prune_run(
    folder: Path,
    run_folder: Path | None,
    overrides: Sequence[str],
    console: Console,
    *,
    heads: int | None = None,
    intermediate: int | None = None,
    by: str = GRADIENT,
    batches: int = BATCHES,
) -> dict[str, Any]:
    """Derives a run with a pruned model, unless the same run already exists.

    Args:
        folder: A run that was trained, or imported and has records; it is not changed.
        run_folder: The new run's folder; `runs/` and the name of `folder` with
            `_pruned` by default.
        overrides: `KEY=VALUE`, for the new `run.yaml`.
        console: Prints progress and the result.
        heads: Number of heads to keep in each attention layer; None for all.
        intermediate: Number of intermediate units to keep in each feed-forward layer;
            None for all.
        by: The score of which the highest heads are kept: `gradient`, or a score of the
            run's analysis; see `transbeam.trainer.derived_runs.head_scores`.
            Intermediate units are always chosen by gradients.
        batches: Batches of 8 training records on which importance is measured.

    Returns:
        The stage's result: parameter counts before and after, the heads that are kept,
        the share of the total importance that was removed, and the mean scores of the
        heads that are kept and removed, if they were chosen by an analysis.

    Raises:
        UserError: There is no model or no record, nothing would be removed, or the
            configuration cannot express the smaller model.
    """
    by_analysis = by != GRADIENT
    if by_analysis and heads is None:
        raise ConfigError(
            f"--by={by}: chooses heads, and all heads are kept. Say how many are left: "
            "--heads N"
        )
    needs_gradients = not by_analysis or intermediate is not None
    if needs_gradients and keras.backend.backend() != "tensorflow":
        raise ConfigError(
            f"KERAS_BACKEND={keras.backend.backend()}: importance is measured with "
            "TensorFlow's gradients. Leave it out; the pruned run trains on any"
        )
    run_folder = folder_for(folder, run_folder, "pruned")
    origin = find_origin(folder)
    model = pruned_config(origin.config.model, heads=heads, intermediate=intermediate)
    config = pruned_run_config(
        dataclasses.replace(origin.config, model=model), run_folder, overrides
    )
    records = _records(origin)
    old = origin.values()
    widths = part_widths(old, origin.config.model)
    scores = _read_scores(origin, by, widths) if by_analysis else {}
    run = DerivedRun.from_origin(
        origin,
        config,
        run_folder,
        "prune",
        records=data_stage(folder).load()["result"]["records_sha256"],
        overrides=list(overrides),
        batches=batches,
        **_fingerprint(by, scores),
    )
    if done := run.made_before(console, "the same run, records and numbers"):
        return done
    importance: dict[str, np.ndarray] = {}
    if needs_gradients:
        importance = _importance(origin, old, widths, records, batches, console)
    kept = select_most_important(
        {**importance, **scores}, origin.config.model, config.model
    )
    # Built first, so that a mismatch is reported before anything is written or moved.
    weights = dict(slice_weights(old, kept, origin.config.model))
    pieces, where = records.vocabulary["size"], str(find_model_weights(folder))
    smaller = build_smaller(config, pieces, old, weights, where)
    reads_images = isinstance(config.objective, ImageObjective)
    tokenizer = None if reads_images else origin_tokenizer(origin)
    entries = {
        "importance_gone": _gone(importance, kept) if needs_gradients else {},
        "kept_heads": {p: x for p, x in kept.items() if not p.endswith(_FEEDFORWARD)},
    }
    if by_analysis:
        entries["scores"] = {"by": by, **mean_scores(scores, kept)}
    exportable = run.is_exportable(smaller, tokenizer)
    summary = _summary(run, smaller, entries, exportable)
    return run.write(smaller, tokenizer, {"summary": summary, **entries}, console)


def _records(origin: Origin) -> Manifest:
    """Reads and checks the records of the run, on which importance is measured."""
    folder = origin.folder
    file = folder / "data" / FILE
    again = f"`transbeam data {folder / 'run.yaml'} --run {folder}`"
    if not file.is_file():
        raise ArtifactError(
            f"{file}: missing, and what may go is measured on the run's own records. "
            f"Make them: {again}"
        )
    manifest = read_manifest(file.parent)
    manifest.check_files()
    check_contract(manifest, contract(origin.config))
    trained_on = training_stage(folder).inputs().get("records")
    made = data_stage(folder).load()["result"]["records_sha256"]
    if origin.vocabulary_size is not None and made != trained_on:
        raise ArtifactError(
            f"{file.parent}: has other records than those that {folder} was trained "
            "on. Train it on these first, or put the old ones back from "
            f"{folder / 'superseded'}"
        )
    if origin.tokenizer not in (None, manifest.vocabulary["fingerprint"]):
        raise ArtifactError(
            f"{file.parent}: the records were made with another tokenizer than the "
            f"model's. Make them with its own: {again}"
        )
    return manifest


def _read_scores(
    origin: Origin, by: str, widths: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """Reads the scores of all heads from the run's analysis."""
    model = origin.config.model
    heads = {
        part: find_attention_config(model, part).num_heads
        for part in widths
        if not part.endswith(_FEEDFORWARD)
    }
    return read_head_scores(origin.folder, by, heads)


def _fingerprint(by: str, scores: Parts) -> dict[str, Any]:
    """Returns the inputs of a stage for which heads were chosen by an analysis."""
    if by == GRADIENT:
        return {}
    return {"by": by, "scores": {part: x.tolist() for part, x in scores.items()}}


def _importance(
    origin: Origin,
    values: Parts,
    widths: Mapping[str, int],
    records: Manifest,
    batches: int,
    console: Console,
) -> dict[str, np.ndarray]:
    """Measures importance by the run's own loss, on the first batches of its training.

    Only the task's loss is used, without a teacher: heads and units that the task does
    not need may be removed.
    """
    config = origin.config
    training = dataclasses.replace(config.training, precision="float32")
    measured = dataclasses.replace(config, training=training)
    model = build_trainable(measured, records.vocabulary["size"])
    where = str(find_model_weights(origin.folder))
    if new := load_matching_weights(model, values, where):
        raise ArtifactError(
            f"{where}: has no {', '.join(new)}, without which the loss says nothing of "
            f"the rest. Train {origin.folder} first"
        )
    data = training_batches(
        records,
        batch_size=_RECORDS,
        shuffle_records=config.training.shuffle_records,
        seed=config.seed,
        masking=dynamic_masking(config, records.folder),
    )
    with console.progress("measuring", batches, "batches") as progress:
        return measure(
            model, make_loss(config), data.take(batches), widths, progress.advance
        )


def _gone(importance: Parts, kept: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """The share of the total importance that was removed, of heads and of units."""
    shares = {}
    for what, of_units in {"heads": False, "units": True}.items():
        parts = [p for p in kept if p.endswith(_FEEDFORWARD) == of_units]
        total = sum(importance[part].sum() for part in parts)
        left = sum(importance[part][kept[part]].sum() for part in parts)
        if parts:
            shares[what] = float(1.0 - left / total) if total else 0.0
    return shares


def _summary(
    run: DerivedRun, smaller: DerivedModel, entries: Mapping[str, Any], exportable: bool
) -> str:
    lost = []
    if scores := entries.get("scores"):
        lost.append(
            f"mean {scores['by']} of the heads {scores['kept']:.4g} where kept, "
            f"{scores['removed']:.4g} where removed"
        )
    if gone := entries["importance_gone"]:
        shares = " and ".join(f"{share:.1%} of the {w}'" for w, share in gone.items())
        lost.append(f"what went had {shares} importance")
    next_step = f"{run.command('data')} and {run.command('train')} train it on"
    if exportable:
        as_it_is = f"{run.command('export')} takes it as it is"
        next_step = f"{run.command('run')} trains it on, {as_it_is}"
    return (
        f"{smaller.parameters:,} parameters (of {smaller.parameters_before:,}) in "
        f"{run.stage.run_folder}; {'; '.join(lost)}; {next_step}"
    )


def measure(
    model: keras.Model,
    loss: Loss,
    batches: Iterable[Batch],
    widths: Mapping[str, int],
    advance: Callable[[], None] = lambda: None,
) -> dict[str, np.ndarray]:
    """Computes the mean importance of each head and unit over batches, without dropout.

    Importance uses the magnitude of a batch's gradient. Gradients of opposite sign
    cancel within a batch, so a unit that helps one record and harms another counts only
    if batches are small.

    Args:
        model: A model for the records; it is not changed.
        loss: Its training loss.
        batches: Batches of the records.
        widths: Width per head or unit of each sub-layer; see
            `transbeam.model.adaptation.structured_pruning.part_widths`.
        advance: Called after each batch.

    Returns:
        Importances of each sub-layer, float64 `(N,)`; see `importances`.

    Raises:
        ArtifactError: The gradients are not finite.
    """
    weights = variables_by_path(model)
    kernels = {part: weights[f"{part}/{OUTPUT}"].value for part in widths}
    outputs_of = outputs_to_learn_from(model, loss, training=False)

    @tf.function(autograph=False, reduce_retracing=True)
    def of_batch(batch: Batch) -> dict[str, Any]:
        counts = loss.counts(batch)
        with tf.GradientTape() as tape:
            value, _ = loss(outputs_of(batch), batch, counts)
        gradients = tape.gradient(
            value, kernels, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return {
            part: importances(kernels[part], gradients[part], width)
            for part, width in widths.items()
        }

    sums, number = dict.fromkeys(widths, np.float64(0.0)), 0
    for batch in batches:
        found = of_batch(batch)
        sums = {part: sums[part] + found[part].numpy() for part in widths}
        number += 1
        advance()
    means = {part: np.asarray(total / number) for part, total in sums.items()}
    if wrong := [part for part, mean in means.items() if not np.isfinite(mean).all()]:
        raise ArtifactError(
            f"{wrong[0]}: the loss's gradient is not finite on the records, so no "
            "importance can be measured. Train the run again, with a smaller "
            "training.schedule.peak"
        )
    return means
