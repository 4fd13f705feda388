"""What the files must say: of the exported model, and of the room it needs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import saved_model_pb2

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.base.saved_models import find_version
from transbeam.configs.schema.export import example_texts
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.objectives.traits import input_names
from transbeam.configs.schema.run import RunConfig
from transbeam.serving.client.interface import SignatureTypes

DEFAULT_TEXTS = ("Two dogs run in a park.", "An animal is outside.")
DEFAULT_MASKED = ("It returns a [MASK].",)
# A PNG of one black pixel.
DEFAULT_IMAGE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJ"
    "RU5ErkJggg=="
)

_MEBIBYTE = 2**20
# TensorFlow itself, some 500, and a batch of texts that are not long.
_PROGRAM = 768
# Two versions for a while, and half of one for what loading holds twice.
_VERSIONS = 2.5
_STEP = 256


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A SavedModel, as far as a deployment has to know it.

    Attributes:
        folder: Above the version folders.
        version: The one that is there.
        size: Of the version's files, in bytes.
        tensorflow: The TensorFlow that wrote it.
        signatures: What clients can ask it.
    """

    folder: Path
    version: int
    size: int
    tensorflow: str
    signatures: Mapping[str, SignatureTypes]

    @property
    def memory(self) -> int:
        """MiB that a server of it needs: `memory_sum`, rounded up."""
        wanted = _PROGRAM + _VERSIONS * self.size / _MEBIBYTE
        return _STEP * math.ceil(wanted / _STEP)

    @property
    def memory_sum(self) -> str:
        """How `memory` comes about."""
        size = math.ceil(self.size / _MEBIBYTE)
        versions = f"{_VERSIONS:g} x {size} MiB for the model"
        return f"{_PROGRAM} MiB for the server and {versions}"

    @property
    def storage(self) -> int:
        """GiB of a volume that holds ten versions."""
        return max(1, math.ceil(10 * self.size / 2**30))


def read_exported(folder: Path) -> Exported:
    """Reads what `transbeam export` left, without loading the model.

    Args:
        folder: `export/saved_model` of a run.

    Raises:
        ArtifactError: There is no SavedModel, or it cannot be read.
    """
    version = find_version(folder)
    file = version / "saved_model.pb"
    try:
        saved_model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    except DecodeError as error:
        raise ArtifactError(
            f"{file}: no SavedModel ({error}). Move its folder away and export anew"
        ) from None
    graph = saved_model.meta_graphs[0]
    return Exported(
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
    """Whether clients of TF Serving have no use for it.

    A state is kept between calls by `transbeam serve` alone; `__saved_model_init_op` is
    run when a model is loaded.
    """
    tensors = {*signature.inputs, *signature.outputs}
    return name.startswith("__") or any(t.startswith("state_") for t in tensors)


def _types(tensors: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: types_pb2.DataType.Name(tensor.dtype)
        for name, tensor in sorted(tensors.items())
    }


def first_request(config: RunConfig) -> dict[str, Any]:
    """The body of a request for `serving_default`: the run's first example.

    Args:
        config: The run.
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
