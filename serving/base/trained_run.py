"""Reads what the trainer left in a run's folder, and refuses what does not fit."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import h5py
import keras
import numpy as np

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.export_support import check_export
from transbeam.configs.loader.run_folder import Stage
from transbeam.configs.loader.warmup import inherited_warmup, settle_warmup
from transbeam.configs.loader.yaml_config import flatten, load_run
from transbeam.configs.schema.objectives.traits import traits
from transbeam.configs.schema.run import RunConfig
from transbeam.model.build import build_model
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    load_tokenizer,
    tokenizer_fingerprint,
)

TOKENIZER = "data/tokenizer"
WEIGHTS = "training/model.weights.h5"
CONFIG = "training/run.yaml"
# Of the training stage's result.
HAS_HEAD = "has_head"

_TRAIN = "transbeam train CONFIG"
_DATA = "transbeam data CONFIG"


@dataclass(frozen=True)
class TrainedRun:
    """A trained model, ready to be asked.

    Attributes:
        config: The run.
        tokenizer: The one the records were made with.
        model: As `build_model` makes it for the objective, for one text a row.
            Computes in float32, whatever precision it was trained in.
        has_head: Whether its head was trained, or imported; false of a body that was
            imported alone, below a new one.
    """

    config: RunConfig
    tokenizer: Tokenizer
    model: keras.Model
    has_head: bool = True


def load_trained(run_folder: Path, config: RunConfig | None = None) -> TrainedRun:
    """Loads the trained model of a run.

    Args:
        run_folder: Holds `data/` and `training/`.
        config: The run; what it was trained with if left out.

    Raises:
        ArtifactError: Something is missing, cut off, damaged, not finite, or was made
            with another configuration or other records.
        ConfigError: The run is of a kind that cannot be exported yet.
    """
    if config is None:
        Stage(run_folder, "training", _TRAIN).load()  # names what is missing
        config = load_run(run_folder / CONFIG)
    check_export(config)
    record = training_record(run_folder, config)
    _check_tokenizer(run_folder)
    tokenizer = load_tokenizer(run_folder / TOKENIZER)
    model = build(config, tokenizer.vocabulary_size)
    load_weights(model, run_folder / WEIGHTS)
    return TrainedRun(config, tokenizer, model, record["result"].get(HAS_HEAD, True))


def build(
    config: RunConfig, vocabulary_size: int, dtype: str = "float32"
) -> keras.Model:
    """The model of a run as it is served, for one text a row, with fresh weights.

    Args:
        config: The run.
        vocabulary_size: Of its tokenizer.
        dtype: Of the weights and of what is computed.
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
    """What the training stage wrote down of itself.

    Args:
        run_folder: The run's folder.
        config: What it must have been trained with.
        command: What helps if it was not, for the message.

    Raises:
        ArtifactError: It is not finished, or was made with other keys than `config`
            has, or from other records than are in the folder now.
    """
    training = Stage(run_folder, "training", command)
    record = training.load()
    keys = flatten(settle_warmup(config))
    trained_with: dict[str, Any] = record["inputs"]
    wanted = {key: keys.get(key, value) for key, value in trained_with.items()}
    data = Stage(run_folder, "data", _DATA).load()["result"]
    wanted["records"] = data["records_sha256"]
    training.require(wanted | inherited_warmup(config, trained_with, wanted))
    return record


def load_weights(model: keras.Model, path: Path) -> None:
    """Puts a file of weights into a model that they fit exactly.

    Keras itself takes the layers by their order and passes over those it does not
    know. Here they are held against the model by name before.

    Raises:
        ArtifactError: The file is missing, cut off, of another model, or holds a
            number that is not finite.
    """
    advice = f"Train again: {_TRAIN}"
    if not path.is_file():
        raise ArtifactError(f"{path}: there is no such file. {advice}")
    try:
        there = _shapes_in(path)
        here = {layer.name: _shapes_of(layer) for layer in model.layers}
        if differences := _differences(there, here):
            listed = "\n".join(f"  {line}" for line in differences)
            raise ArtifactError(
                f"{path}: made for another model than the configuration "
                f"describes:\n{listed}\n{advice}"
            )
        keras.saving.load_weights(model, path)
    except (OSError, KeyError, ValueError) as error:
        raise ArtifactError(
            f"{path}: cut off or damaged, not a whole file of Keras weights "
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
    """The shapes below each layer of a file of weights, by the layer's name."""
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


def _shapes_of(layer: keras.layers.Layer) -> list[tuple[int, ...]]:
    return sorted(tuple(weight.shape) for weight in layer.weights)


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
