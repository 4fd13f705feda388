"""Reads KerasHub's presets and backbones."""

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
    """Maps unique names, which contain the layer's name, to weights.

    KerasHub's own paths are not all unique: T5's two position tables have the same
    name, and its norms are numbered over all models that the process has built.
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
        # Their numbers start at 1.
        name = re.sub(r"(?<=transformer_block_)\d+", lambda n: str(int(n[0]) - 1), name)
        if name in named:
            raise ArtifactError(f"{backbone.name}: has two weights called {name}")
        named[name] = weight
    return named


def read_preset(folder: Path) -> Checkpoint:
    """Reads a preset's folder: `config.json` and `model.weights.h5`.

    Raises:
        ArtifactError: The preset is damaged, or of an unsupported model.
    """
    for file in sorted(folder.glob("*.h5")):
        refuse_lfs_pointer(file)
    # The import takes seconds, and only this format needs it.
    import keras_hub

    try:
        with warnings.catch_warnings():
            # KerasHub only warns of missing weights, and leaves them random.
            warnings.filterwarnings("error", message="Skipping nested container")
            backbone = keras_hub.models.Backbone.from_preset(str(folder))
    except (OSError, ValueError, KeyError, TypeError, UserWarning) as error:
        raise ArtifactError(
            f"{folder}: KerasHub cannot load this preset: {error}"
        ) from error
    return read_backbone(backbone, where=str(folder))


def read_backbone(backbone: Any, where: str = "the backbone") -> Checkpoint:
    """Reads the weights of a KerasHub backbone.

    Args:
        backbone: An instance of a `keras_hub.models.*Backbone`.
        where: The beginning of error messages, such as the preset's folder.

    Raises:
        ArtifactError: The backbone's class or one of its settings is not supported.
    """
    name = type(backbone).__name__
    if name not in BACKBONES:
        raise ArtifactError(
            f"{where}: is a {name}, expected one of {', '.join(BACKBONES)}"
        )
    family, describe = BACKBONES[name]
    source = BackboneSource(backbone)
    # Not all classes have it among their arguments.
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
