"""Loads a trained run and rejects files that do not match its configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import h5py
import keras
import numpy as np

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.export_support import check_export
from transbeam.configs.loader.model_files import IMPORTED
from transbeam.configs.loader.run_folder import Stage
from transbeam.configs.loader.warmup import inherited_warmup, settle_warmup
from transbeam.configs.loader.yaml_config import flatten, load_run
from transbeam.configs.schema.objectives.traits import traits
from transbeam.configs.schema.run import RunConfig
from transbeam.model.build import build_model
from transbeam.model.weights.safetensors_store import load_matching_weights
from transbeam.model.weights.training_checkpoints import (
    find_checkpoint,
    read_checkpoint_weights,
)
from transbeam.pipeline.records.epochs import settle_steps
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    load_tokenizer,
    tokenizer_fingerprint,
)
from transbeam.serving.base.applied_calibration import (
    NOT_CALIBRATED,
    AppliedCalibration,
)

TOKENIZER = "data/tokenizer"
WEIGHTS = "training/model.weights.h5"
CONFIG = "training/run.yaml"
CHECKPOINTS = "training/checkpoints"
# A key of the training stage's result.
HAS_HEAD = "has_head"

_TRAIN = "transbeam train CONFIG"
_DATA = "transbeam data CONFIG"


@dataclass(frozen=True)
class TrainedRun:
    """A trained model with its configuration and tokenizer.

    Attributes:
        config: The run's configuration, with the length of its training in steps.
        tokenizer: The tokenizer that the records were made with.
        model: The model that `build_model` returns for the objective, for rows with one
            text each. The model computes in float32, regardless of the precision of its
            training.
        has_head: Whether the head was trained or imported; false if only the encoder
            was imported and the head is newly initialized.
        calibration: The temperature and thresholds that signatures apply to the
            model's outputs.
    """

    config: RunConfig
    tokenizer: Tokenizer
    model: keras.Model
    has_head: bool = True
    calibration: AppliedCalibration = NOT_CALIBRATED


def load_trained(
    run_folder: Path,
    config: RunConfig | None = None,
    *,
    checkpoint: int | None = None,
) -> TrainedRun:
    """Loads the trained model of a run.

    Args:
        run_folder: The run's folder, with `data/` and `training/`.
        config: The run's configuration; if left out, the configuration with which it
            was trained.
        checkpoint: The step of the checkpoint to load; None for the finished weights.

    Raises:
        ArtifactError: A file is missing, truncated, damaged, contains values that are
            not finite, or was made with another configuration or other records; or
            there is no such checkpoint.
        ConfigError: Models with this configuration cannot be exported yet.
    """
    if config is None:
        Stage(run_folder, "training", _TRAIN).load()  # names what is missing
        config = load_run(run_folder / CONFIG)
    check_export(config)
    record = training_record(run_folder, config)
    config = _in_steps(config, run_folder, record)
    _check_tokenizer(run_folder)
    tokenizer = load_tokenizer(run_folder / TOKENIZER)
    model = build(config, tokenizer.vocabulary_size)
    if checkpoint is None:
        load_weights(model, run_folder / WEIGHTS)
        has_head = record["result"].get(HAS_HEAD, True)
    else:
        load_checkpoint_weights(model, run_folder, checkpoint)
        has_head = True  # it is trained with its head
    return TrainedRun(config, tokenizer, model, has_head)


def build(
    config: RunConfig, vocabulary_size: int, dtype: str = "float32"
) -> keras.Model:
    """Builds the serving model of a run, for one text per row, newly initialized.

    Args:
        config: The run's configuration.
        vocabulary_size: The size of the vocabulary of the run's tokenizer.
        dtype: The dtype of the weights and of the computation.
    """
    return build_model(
        config.model,
        config.objective,
        vocabulary_size,
        segments=traits(config.objective).has_segments,
        dtype=dtype,
        # Random features and random blocks come from it; they are not weights.
        seed=config.seed,
    )


def training_record(
    run_folder: Path, config: RunConfig, command: str = _TRAIN
) -> dict[str, Any]:
    """Returns the record that the training stage wrote when it finished.

    Args:
        run_folder: The run's folder.
        config: The configuration that the run must have been trained with.
        command: The command to suggest in the error message.

    Raises:
        ArtifactError: Training has not finished, used configuration values that differ
            from `config`, or used records other than those now in the run's folder.
    """
    training = Stage(run_folder, "training", command)
    record = training.load()
    keys = flatten(settle_warmup(_in_steps(config, run_folder, record)))
    trained_with: dict[str, Any] = record["inputs"]
    wanted = {key: keys.get(key, value) for key, value in trained_with.items()}
    data = Stage(run_folder, "data", _DATA).load()["result"]
    wanted["records"] = data["records_sha256"]
    training.require(wanted | inherited_warmup(config, trained_with, wanted))
    return record


def _in_steps(
    config: RunConfig, run_folder: Path, record: Mapping[str, Any]
) -> RunConfig:
    """Converts epochs to steps, unless the run was imported and has no records."""
    if config.training.epochs is None or record["result"].get(IMPORTED):
        return config
    return settle_steps(config, run_folder / "data")


def load_weights(model: keras.Model, path: Path) -> None:
    """Loads a weights file into a model whose layers match it exactly.

    Keras itself matches layers by their order and skips unknown ones. This function
    first compares layer names and weight shapes with those of the model.

    Raises:
        ArtifactError: The file is missing, truncated, of another model, or contains a
            value that is not finite.
    """
    advice = f"Train again: {_TRAIN}"
    if not path.is_file():
        raise ArtifactError(f"{path}: there is no such file. {advice}")
    try:
        there = _shapes_in(path)
        here = {
            layer.name: sorted(tuple(weight.shape) for weight in layer.weights)
            for layer in model.layers
        }
        if differences := _differences(there, here):
            listed = "\n".join(f"  {line}" for line in differences)
            raise ArtifactError(
                f"{path}: made for another model than the configuration "
                f"describes:\n{listed}\n{advice}"
            )
        keras.saving.load_weights(model, path)
    except (OSError, KeyError, ValueError) as error:
        raise ArtifactError(
            f"{path}: cut off or damaged, not a complete file of Keras weights "
            f"({error}). {advice}"
        ) from error
    for variable in model.weights:
        values = np.asarray(keras.ops.convert_to_numpy(variable))
        if not np.isfinite(values).all():
            raise ArtifactError(
                f"{path}: {variable.path} has {(~np.isfinite(values)).sum():,} of "
                f"{values.size:,} numbers that are not finite: the training diverged. "
                "Train again with a smaller training.schedule.peak"
            )


def load_checkpoint_weights(model: keras.Model, run_folder: Path, step: int) -> None:
    """Loads the weights of one of a training's checkpoints.

    Args:
        model: The model of the run; see `build`.
        run_folder: The run's folder.
        step: The checkpoint's step.

    Raises:
        ArtifactError: There is no such checkpoint, or it is damaged or of another
            model.
    """
    path = find_checkpoint(run_folder / CHECKPOINTS, step)
    weights = read_checkpoint_weights(path)
    if missing := load_matching_weights(model, weights, str(path)):
        raise ArtifactError(f"{path}: has no weights {', '.join(missing)}")


def _check_tokenizer(run_folder: Path) -> None:
    data = Stage(run_folder, "data", _DATA)
    folder = run_folder / TOKENIZER
    found = tokenizer_fingerprint(folder)
    expected = data.load()["result"]["vocabulary_fingerprint"]
    if found != expected:
        raise ArtifactError(
            f"{folder}: not the tokenizer the records were made with: its fingerprint "
            f"is {found[:12]}…, {data.path / 'stage.json'} expects {expected[:12]}…. "
            f"Put the right one back, or make the records again: {_DATA}"
        )


def _shapes_in(path: Path) -> dict[str, list[tuple[int, ...]]]:
    """Returns the weight shapes of each layer in a weights file, by layer name."""
    shapes = {}
    with h5py.File(path) as file:
        layers = cast(h5py.Group, file["layers"])
        for group in layers.values():
            found: list[tuple[int, ...]] = []
            group.visititems(
                lambda _, node, found=found: (
                    found.append(node.shape) if isinstance(node, h5py.Dataset) else None
                )
            )
            shapes[group["vars"].attrs["name"]] = sorted(found)
    return shapes


def _differences(
    there: dict[str, list[tuple[int, ...]]], here: dict[str, list[tuple[int, ...]]]
) -> list[str]:
    def shown(shapes: list[tuple[int, ...]] | None) -> str:
        return ", ".join(map(str, shapes)) if shapes else "nothing"

    return [
        f"{name}: {shown(there.get(name))} there, {shown(here.get(name))} expected"
        for name in dict.fromkeys([*here, *there])
        if (there.get(name) or []) != (here.get(name) or [])
    ]
