"""The training stage of a run: its inputs and its model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from transbeam.configs.loader.model_files import (
    IMPORTED,
    find_model_weights,
    training_stage,
    was_trained,
)
from transbeam.configs.loader.warmup import inherited_warmup, settle_warmup
from transbeam.configs.loader.yaml_config import flatten
from transbeam.configs.schema.objectives.traits import traits
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.model.build import build_model
from transbeam.model.layers.block import TransformerBlock
from transbeam.pipeline.records.manifest import sha256
from transbeam.trainer.input.datasets import sha256_of_records

# Of the stage's result: false of a body that was imported alone, below a new head.
HAS_HEAD = "has_head"

# Keys of `training` that have no effect on the trained weights; and paths of other
# runs' weights, because the fingerprints of those files are inputs of their own.
_OF_NO_WEIGHT = {
    f"training.{key}"
    for key in (
        "analyze_every",
        "best_metric",
        "accumulation",  # gives the gradient of the whole batch
        "distillation.teacher",
        "distribution.kind",
        "distribution.model_devices",
        "evaluate_every",
        "init_from",
        "initial_weights",
        "keep_checkpoints",
        "log_every",
        "max_skipped_steps",
        "rematerialize",
        "samples",
        "validation_batches",
    )
}
# Those of them that decide which checkpoint is the best.
_OF_THE_BEST = {
    "training.best_metric",
    "training.evaluate_every",
    "training.validation_batches",
}


def training_inputs(
    config: RunConfig, records_sha256: str, there: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Collects the inputs that determine the weights: keys, records, initial weights.

    Args:
        config: The run.
        records_sha256: Fingerprint of the run's records.
        there: The inputs of an earlier training in the folder. If the initial weights,
            the teacher, or the records of other runs have been deleted since, their
            fingerprints are taken from these earlier inputs.
    """
    sections = ("model.", "training.", "tokenizer.vocabulary_size")
    free = _OF_NO_WEIGHT
    if config.training.final_weights == "best":
        free = free - _OF_THE_BEST
    keys = {
        key: value
        for key, value in flatten(settle_warmup(config)).items()
        if (key == "seed" or key.startswith(sections)) and key not in free
    }
    there = there or {}
    # Older versions recorded some of these keys as inputs.
    keys |= {key: there[key] for key in free if key in there}
    for name, path in _weights_of_others(config.training).items():
        key = f"{name}_sha256"
        gone = there.get(key, "missing")
        keys[key] = sha256(path) if path.is_file() else gone
    for number, dataset in enumerate(config.training.datasets):
        key = f"datasets[{number}].records"
        gone = there.get(key, "missing")
        keys[key] = sha256_of_records(dataset) or gone
    keys["records"] = records_sha256
    return keys | inherited_warmup(config, there, keys)


def _weights_of_others(training: TrainingConfig) -> dict[str, Path]:
    files = {}
    if (path := initial_weights(training)) is not None:
        files["initial_weights"] = path
    if training.distillation is not None:
        files["teacher"] = find_model_weights(
            Path(training.distillation.teacher).expanduser()
        )
    return files


def missing_weights(training: TrainingConfig) -> list[Path]:
    """Lists the missing weight files of other runs that a configuration names."""
    return [
        path for path in _weights_of_others(training).values() if not path.is_file()
    ]


def initial_weights(training: TrainingConfig) -> Path | None:
    """The file of a training's initial weights; None for random weights."""
    if training.initial_weights is not None:
        return Path(training.initial_weights).expanduser()
    if training.init_from is None:
        return None
    return find_model_weights(Path(training.init_from).expanduser())


def is_as_imported(run_folder: Path) -> bool:
    """Returns whether a run has its imported weights and has not started a training."""
    stage = training_stage(run_folder)
    if stage.exists:
        return (stage.path / "stage.json").is_file() and not was_trained(run_folder)
    return (run_folder / IMPORTED / "stage.json").is_file()


def build_trainable(config: RunConfig, vocabulary_size: int) -> keras.Model:
    """Builds the model of a run for training on its (packed) records."""
    model = build_model(
        config.model,
        config.objective,
        vocabulary_size,
        packed=True,
        segments=traits(config.objective).has_segments,
        dtype=config.training.precision,
        seed=config.seed,
    )
    for layer in model.layers:
        if isinstance(layer, TransformerBlock):
            layer.rematerialize = config.training.rematerialize
    return model
