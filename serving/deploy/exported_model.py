"""Metadata of an exported model for deployment files, and its memory requirements."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorflow.core.framework import types_pb2

from transbeam.configs.base.saved_models import find_version
from transbeam.configs.schema.export import example_texts
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.objectives.traits import input_names
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.runtimes.saved_model import read_saved_model
from transbeam.serving.client.interface import SignatureTypes

DEFAULT_TEXTS = ("Two dogs run in a park.", "An animal is outside.")
DEFAULT_MASKED = ("It returns a [MASK].",)
# A PNG of one black pixel.
DEFAULT_IMAGE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJ"
    "RU5ErkJggg=="
)

_MEBIBYTE = 2**20
# MiB: TensorFlow itself, some 500, and a batch of short texts.
_PROGRAM = 768
# Two versions during a reload, and half of one for copies made while loading.
_VERSIONS = 2.5
_STEP = 256


@dataclass(frozen=True, kw_only=True)
class ExportedModel:
    """Metadata of a SavedModel that a deployment needs.

    Attributes:
        folder: The parent of the version folders.
        version: The version that is exported.
        size: Total size of the version's files, in bytes.
        tensorflow: The version of TensorFlow that wrote the SavedModel.
        signatures: The signatures that clients can call.
    """

    folder: Path
    version: int
    size: int
    tensorflow: str
    signatures: Mapping[str, SignatureTypes]

    @property
    def memory(self) -> int:
        """Memory that a server of the model needs, in MiB, a multiple of 256."""
        wanted = _PROGRAM + _VERSIONS * self.size / _MEBIBYTE
        return _STEP * math.ceil(wanted / _STEP)

    @property
    def memory_sum(self) -> str:
        """Describes how `memory` is computed, for the deployment files."""
        size = math.ceil(self.size / _MEBIBYTE)
        versions = f"{_VERSIONS:g} x {size} MiB for the model"
        return f"{_PROGRAM} MiB for the server and {versions}"

    @property
    def storage(self) -> int:
        """Size of a volume for ten versions of the model, in GiB."""
        return max(1, math.ceil(10 * self.size / 2**30))


def read_exported(folder: Path) -> ExportedModel:
    """Reads the metadata of an exported SavedModel without loading it.

    Args:
        folder: The folder `export/saved_model` of a run.

    Raises:
        ArtifactError: There is no SavedModel, or it cannot be read.
    """
    version = find_version(folder)
    graph = read_saved_model(version).meta_graphs[0]
    return ExportedModel(
        folder=folder,
        version=int(version.name),
        size=sum(f.stat().st_size for f in version.rglob("*") if f.is_file()),
        tensorflow=graph.meta_info_def.tensorflow_version,
        signatures={
            name: SignatureTypes(_types(found.inputs), _types(found.outputs))
            for name, found in sorted(graph.signature_def.items())
            if not _is_hidden(name, found)
        },
    )


def _is_hidden(name: str, signature: Any) -> bool:
    """Returns whether a signature is of no use to clients of TF Serving.

    Signatures with a state between calls work only in `transbeam serve`;
    `__saved_model_init_op` runs when a model is loaded.
    """
    tensors = {*signature.inputs, *signature.outputs}
    return name.startswith("__") or any(t.startswith("state_") for t in tensors)


def _types(tensors: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: types_pb2.DataType.Name(tensor.dtype)
        for name, tensor in sorted(tensors.items())
    }


def first_request(config: RunConfig) -> dict[str, Any]:
    """Returns a request body for `serving_default`, with the run's first example.

    Args:
        config: The run's configuration.
    """
    objective, examples = config.objective, config.export.examples
    names = input_names(objective)
    if isinstance(objective, ImageObjective):  # the example's file may be large
        return {"instances": [{"b64": DEFAULT_IMAGE}]}
    if examples:
        texts = example_texts(objective, examples[0])
    else:
        texts = DEFAULT_MASKED if objective.kind == "masked" else DEFAULT_TEXTS
    if len(names) == 1:
        return {"instances": [texts[0]]}
    return {"instances": [dict(zip(names, texts, strict=True))]}
