"""Exports weights as a checkpoint in Hugging Face's format."""

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import keras
import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from transbeam.configs.base.atomic_files import write_json, writing
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.objectives.objective import VectorObjective
from transbeam.model.weights.checkpoints.hf_config import HFConfig
from transbeam.model.weights.checkpoints.model_family import Description, Family
from transbeam.model.weights.checkpoints.tensor_sources import INDEX, SINGLE
from transbeam.model.weights.checkpoints.tensor_transforms import Shape
from transbeam.model.weights.checkpoints.weight_mapping import WeightMapping, link
from transbeam.model.weights.config_equivalence import differences
from transbeam.model.weights.hugging_face.families import FAMILIES

Dtype = Literal["float32", "float16", "bfloat16"]
Shapes = Mapping[str, Shape]

_NUMPY = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def export_checkpoint(
    weights: Mapping[str, Any],
    description: Description,
    folder: str | Path,
    *,
    family: str | None = None,
    dtype: Dtype = "float32",
    max_shard_bytes: int = 5_000_000_000,
) -> str:
    """Writes `config.json` and weights in the format that transformers loads.

    Args:
        weights: Values by path: arrays, or a model's variables (`variables_by_path`).
            Only the weights of one shard are in memory at a time.
        description: Description of the model to which the weights belong.
        folder: Created if it does not exist. `config.json` and safetensors files in it
            are replaced.
        family: Model family such as `bert`; if left out, the first that can represent
            the model.
        dtype: The dtype to which weights are rounded.
        max_shard_bytes: Maximum size of a file; larger weights are sharded.

    Returns:
        The family.

    Raises:
        ArtifactError: No family, or not the given family, can represent the model; the
            message lists the reasons.

    Example:
    >>> import tempfile
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.build import build_encoder
    >>> from transbeam.model.weights.assign import variables_by_path
    >>> config = EncoderConfig(num_layers=1, hidden_dim=8)
    >>> weights = variables_by_path(build_encoder(config, 10))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     description = Description(config=config, vocabulary_size=10)
    ...     export_checkpoint(weights, description, folder)
    ...     sorted(os.listdir(folder))
    'distilbert'
    ['config.json', 'model.safetensors']
    """
    if dtype not in _BYTES:
        raise ValueError(f"dtype={dtype!r}; known here: {', '.join(_BYTES)}")
    shapes = {path: tuple(values.shape) for path, values in weights.items()}
    chosen, settings, links, prefix = _fitting(shapes, description, family)
    shards = _shards(links, _BYTES[dtype], max_shard_bytes)
    folder = Path(folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _remove_old(folder)
    files: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        name = SINGLE
        if len(shards) > 1:
            name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        tensors = {
            _full_name(found, prefix): _cast(found, weights, dtype) for found in shard
        }
        _save(folder / name, tensors)
        files |= dict.fromkeys(tensors, name)
    if len(shards) > 1:
        size = sum(math.prod(found.shape) for found in links) * _BYTES[dtype]
        index = {"metadata": {"total_size": size}, "weight_map": files}
        write_json(folder / INDEX, index)
    # Written last, so that a folder with it is complete.
    write_json(folder / "config.json", {**settings, "torch_dtype": dtype})
    return chosen.model_type


def _fitting(
    shapes: Shapes, description: Description, family_name: str | None
) -> tuple[Family, dict[str, Any], list[WeightMapping], str]:
    """Finds a model family whose checkpoint format can represent a model.

    Returns:
        The family, its settings, the mapping of weights to tensors, and the prefix of
        the tensors' names.
    """
    if family_name is not None and family_name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise ArtifactError(
            f"{family_name!r} is no family of models. Known here: {known}"
        )
    refusals = []
    for family in [FAMILIES[family_name]] if family_name else FAMILIES.values():
        try:
            return family, *_fit(family, shapes, description)
        except (ArtifactError, ConfigError) as error:
            refusals.append(f"  {family.model_type}: {error}")
    listed = "\n".join(refusals)
    raise ArtifactError(f"the model is none that this format has:\n{listed}")


def _fit(
    family: Family, shapes: Shapes, description: Description
) -> tuple[dict[str, Any], list[WeightMapping], str]:
    """Converts a model's settings to a family's and back; checks that none are lost."""
    settings = {**family.write(description), **description.token_ids}
    links = link(family.rows(description), shapes, description.sizes, "its files")
    names = {found.theirs for found in links}
    again = family.read(HFConfig(settings, "its config.json"), names)
    config = description.config
    if isinstance(description.objective, MaskedConfig):
        config = replace(config, pooler=None)  # such a model has no pooler
    if isinstance(config, DecoderConfig) and not isinstance(
        description.objective, VectorObjective
    ):
        config = replace(config, pooler=None)  # it has no effect
    if lost := differences(config, again.config):
        raise ArtifactError("; ".join(lost))
    return settings, links, family.prefix if again.objective else ""


def _shards(
    links: list[WeightMapping], width: int, limit: int
) -> list[list[WeightMapping]]:
    """Groups tensors into files, in order; a single tensor may exceed the limit."""
    shards: list[list[WeightMapping]] = [[]]
    size = 0
    for found in links:
        more = math.prod(found.shape) * width
        if shards[-1] and size + more > limit:
            shards.append([])
            size = 0
        shards[-1].append(found)
        size += more
    return shards


def _full_name(found: WeightMapping, prefix: str) -> str:
    return found.theirs if found.row.part == "head" else prefix + found.theirs


def _cast(found: WeightMapping, weights: Mapping[str, Any], dtype: str) -> np.ndarray:
    arrays = [
        np.asarray(keras.ops.convert_to_numpy(weights[path])) for path in found.ours
    ]
    tensor = found.to_theirs(arrays)
    return np.ascontiguousarray(tensor, dtype=_NUMPY[dtype])


def _save(path: Path, tensors: dict[str, np.ndarray]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path):
            # transformers does not load a file without this metadata.
            save_file(tensors, temporary, metadata={"format": "pt"})
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _remove_old(folder: Path) -> None:
    """Removes the files of an earlier checkpoint, which may have other names."""
    for name in ("config.json", INDEX, SINGLE):
        (folder / name).unlink(missing_ok=True)
    for old in folder.glob("model-*-of-*.safetensors"):
        old.unlink()
