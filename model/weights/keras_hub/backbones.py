"""KerasHub's presets and backbones, read in."""

import re
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np

from transbeam.configs.base.atomic_files import refuse_lfs_pointer
from transbeam.configs.base.errors import ArtifactError
from transbeam.model.weights.checkpoints.checkpoint import Checkpoint
from transbeam.model.weights.checkpoints.hf_config import HFConfig
from transbeam.model.weights.checkpoints.tensor_transforms import Shape
from transbeam.model.weights.keras_hub.backbone_configs import BACKBONES


class BackboneSource:
    """The weights of an instantiated backbone."""

    def __init__(self, backbone: Any):
        self._variables = _by_name(backbone)

    @property
    def shapes(self) -> dict[str, Shape]:
        return {name: tuple(v.shape) for name, v in self._variables.items()}

    def read(self, name: str) -> np.ndarray:
        return np.asarray(keras.ops.convert_to_numpy(self._variables[name]))


def _by_name(backbone: Any) -> dict[str, Any]:
    """Weights by names that say where each stands.

    KerasHub's own paths are not all unique: T5's two position tables have one name, and
    its norms are numbered over all models that were ever built in the process.
    """
    named: dict[str, Any] = {}
    norms: dict[str, int] = {}
    for weight in backbone.weights:
        name = weight.path.removeprefix(f"{backbone.name}/")
        if name == "self_attention/embeddings":
            kind = "decoder" if "encoder/relative_bias" in named else "encoder"
            name = f"{kind}/relative_bias"
        layer, found, _ = name.partition("/t5_layer_norm")
        if found:
            name = f"{layer}/norm_{norms.setdefault(layer, 0)}/weight"
            norms[layer] += 1
        # Theirs count from 1.
        name = re.sub(r"(?<=transformer_block_)\d+", lambda n: str(int(n[0]) - 1), name)
        if name in named:
            raise ArtifactError(f"{backbone.name}: has two weights called {name}")
        named[name] = weight
    return named


def read_preset(folder: Path) -> Checkpoint:
    """Reads a preset's folder: `config.json` and `model.weights.h5`.

    Raises:
        ArtifactError: It is damaged, or of a model that we do not have.
    """
    for file in sorted(folder.glob("*.h5")):
        refuse_lfs_pointer(file)
    # Costs seconds, and only this format needs it.
    import keras_hub

    try:
        with warnings.catch_warnings():
            # Weights that it does not find it leaves random, with a warning.
            warnings.filterwarnings("error", message="Skipping nested container")
            backbone = keras_hub.models.Backbone.from_preset(str(folder))
    except (OSError, ValueError, KeyError, TypeError, UserWarning) as error:
        raise ArtifactError(
            f"{folder}: KerasHub cannot load this preset: {error}"
        ) from error
    return read_backbone(backbone, where=str(folder))


def read_backbone(backbone: Any, where: str = "the backbone") -> Checkpoint:
    """Takes the weights of a KerasHub backbone.

    Args:
        backbone: An instance of a `keras_hub.models.*Backbone`.
        where: What it is, for messages.

    Raises:
        ArtifactError: It is of a class that we do not have, or was made with something
            that we do not have.
    """
    name = type(backbone).__name__
    if name not in BACKBONES:
        raise ArtifactError(
            f"{where}: is a {name}, expected one of {', '.join(BACKBONES)}"
        )
    family, describe = BACKBONES[name]
    source = BackboneSource(backbone)
    # Not all of the classes tell it among their arguments.
    tied = {"tied": "token_embedding/reverse_embeddings" not in source.shapes}
    settings = HFConfig({**backbone.get_config(), **tied}, f"{where}: {name}")
    description, rows = describe(settings)
    return Checkpoint(
        where=where,
        format="keras_hub",
        family=family,
        description=description,
        rows=rows,
        source=source,
        names={name: name for name in source.shapes},
    )
