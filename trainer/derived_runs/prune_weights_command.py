"""`transbeam prune --weights`: derives a run whose smallest weights are zero.

The folder's layout is described in `transbeam.trainer.derived_runs.derived_run`. Only
the magnitudes of the weights decide, so no records are needed. The new configuration
has `training.pruning`, by which the zeros stay if the run is trained further.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.model_files import find_model_weights
from transbeam.configs.schema.adaptation import AllWeightsConfig, LoraWeightsConfig
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.pruning import KERNELS, PruningConfig
from transbeam.model.adaptation.packed_size import measure_packed_size
from transbeam.model.adaptation.weight_pruning import (
    Scope,
    count_zeros,
    magnitude_masks,
)
from transbeam.model.base.weight_paths import select_prunable
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.trainer.base.sparsity_report import report_sparsity
from transbeam.trainer.base.warm_start import Origin, find_origin
from transbeam.trainer.derived_runs.derived_run import (
    DerivedRun,
    build_smaller,
    folder_for,
    origin_tokenizer,
    pruned_run_config,
)


def prune_weights_of_run(
    folder: Path,
    run_folder: Path | None,
    overrides: Sequence[str],
    console: Console,
    *,
    sparsity: float,
    scope: Scope = "matrix",
    targets: Sequence[str] = KERNELS,
) -> dict[str, Any]:
    """Derives a run with a sparse model, unless the same run already exists.

    Args:
        folder: A run that was trained or imported; it is not changed.
        run_folder: The new run's folder; `runs/` and the name of `folder` with
            `_sparse` by default.
        overrides: `KEY=VALUE`, for the new `run.yaml`.
        console: Prints progress and the result.
        sparsity: The share of zeros in the pruned matrices, between 0 and 1.
        scope: As in `transbeam.model.adaptation.weight_pruning.prune_weights`.
        targets: Patterns of the paths of the pruned matrices.

    Returns:
        The stage's result, among it `pruned`, see
        `transbeam.trainer.base.sparsity_report.report_sparsity`, and
        `gzip_bytes_before`, of the source run's weights.

    Raises:
        UserError: There is no model, a pattern matches no matrix, or as many weights
            are zero already.
    """
    run_folder = folder_for(folder, run_folder, "sparse")
    origin = find_origin(folder)
    pruning = PruningConfig(
        sparsity=sparsity, end_step=0, scope=scope, targets=tuple(targets)
    )
    changed: dict[str, Any] = {"pruning": pruning}
    if isinstance(origin.config.training.adaptation, LoraWeightsConfig):
        changed["adaptation"] = AllWeightsConfig()
        console.say(
            "training.adaptation.kind=all in the new run: adapters are merged into the "
            "kernels, which leaves no zeros"
        )
    config = pruned_run_config(origin.config, run_folder, overrides, **changed)
    run = DerivedRun.from_origin(
        origin,
        config,
        run_folder,
        "prune",
        sparsity=sparsity,
        scope=scope,
        targets=list(targets),
        overrides=list(overrides),
    )
    if done := run.made_before(console, "the same run and share of zeros"):
        return done
    old = origin.values()
    weights = _pruned(folder, old, pruning)
    reads_images = isinstance(config.objective, ImageObjective)
    tokenizer = None if reads_images else origin_tokenizer(origin)
    # Built first, so that a mismatch is reported before anything is written or moved.
    where = str(find_model_weights(folder))
    pieces = _vocabulary_size(origin, tokenizer)
    smaller = build_smaller(config, pieces, old, weights, where)
    pruned = report_sparsity(weights, targets, console)
    before = _gzip_bytes(old, console)
    exportable = run.is_exportable(smaller, tokenizer)
    entries = {
        "summary": _summary(run, pruned, before, exportable),
        "pruned": pruned,
        "gzip_bytes_before": before,
    }
    return run.write(smaller, tokenizer, entries, console)


def _pruned(
    folder: Path, old: Mapping[str, np.ndarray], pruning: PruningConfig
) -> dict[str, np.ndarray]:
    """Returns all weights, with zeros for those that the masks prune."""
    shapes = {path: values.shape for path, values in old.items()}
    try:
        paths = select_prunable(shapes, pruning.targets)
    except ConfigError as error:
        raise ConfigError(f"--targets: {error}") from None
    chosen = {path: old[path] for path in paths}
    masks = magnitude_masks(chosen, pruning.sparsity, pruning.scope)
    zeros = {path: np.zeros_like(values) for path, values in chosen.items()}
    after = {p: np.where(masks[p], chosen[p], zeros[p]) for p in chosen}
    there, then = count_zeros(chosen).total, count_zeros(after).total
    if there >= then:
        raise ArtifactError(
            f"{folder}: {there:.2%} of the weights that --weights={pruning.sparsity} "
            "prunes are zero already, so nothing would change. Choose a larger share, "
            "or other matrices with --targets"
        )
    return {**old, **after}


def _vocabulary_size(origin: Origin, tokenizer: TokenizerModel | None) -> int:
    if origin.vocabulary_size is not None:
        return origin.vocabulary_size
    return 0 if tokenizer is None else len(tokenizer.pieces)


def _gzip_bytes(weights: Mapping[str, np.ndarray], console: Console) -> int:
    megabytes = sum(values.nbytes for values in weights.values()) / 1e6
    with console.progress("packing the old ones", megabytes, "MB") as progress:
        size = measure_packed_size(weights, lambda done: progress.advance(done / 1e6))
    return size.gzip


def _summary(
    run: DerivedRun, pruned: Mapping[str, Any], before: int, exportable: bool
) -> str:
    next_step = f"{run.command('data')} and {run.command('train')} train it on"
    if exportable:
        as_it_is = f"{run.command('export')} takes it as it is"
        next_step = f"{run.command('run')} trains it on, {as_it_is}"
    return (
        f"{pruned['total']:.1%} zeros in {run.stage.run_folder}; by gzip "
        f"{pruned['bytes']['gzip']:,} bytes of weights (of {before:,}); {next_step}"
    )
