"""Reads, loads and calls SavedModels from Python."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizers' ops)
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from transbeam.configs.base.errors import ArtifactError

# By input name: texts, image files, or numbers.
SignatureInputs = Mapping[str, Sequence[str] | Sequence[bytes] | np.ndarray]


def read_saved_model(folder: Path) -> SavedModel:
    """Reads the protocol buffer of a SavedModel, without loading the model.

    Args:
        folder: The version folder.

    Raises:
        ArtifactError: The file is damaged.
    """
    file = folder / "saved_model.pb"
    try:
        return SavedModel.FromString(file.read_bytes())
    except (DecodeError, OSError) as error:
        raise ArtifactError(
            f"{file}: cannot be read as a SavedModel ({error}). Move its "
            "folder away and export it again"
        ) from None


def read_signatures(folder: Path) -> Mapping[str, SignatureDef]:
    """Reads the signatures of a SavedModel, by name, without loading the model.

    Args:
        folder: The version folder.

    Raises:
        ArtifactError: The file is damaged.
    """
    return {
        name: definition
        for graph in read_saved_model(folder).meta_graphs
        if "serve" in graph.meta_info_def.tags
        for name, definition in graph.signature_def.items()
        if not name.startswith("__")  # TensorFlow's own
    }


class SavedModelRunner:
    """Runs the signatures of a SavedModel in Python.

    Attributes:
        signatures: TensorFlow's function of each signature, by name.

    Args:
        folder: The version folder.

    Raises:
        ArtifactError: The SavedModel cannot be loaded.
    """

    def __init__(self, folder: Path):
        try:
            # Referenced, because the functions do not hold the weights.
            self._model: Any = tf.saved_model.load(str(folder))
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise ArtifactError(
                f"{folder}: cannot be loaded as a SavedModel: {error}. Move "
                "it away and export it again; besides TensorFlow's own it may use the "
                "ops of tensorflow_text"
            ) from error
        self.signatures: Mapping[str, Any] = self._model.signatures

    def input_specs(self, signature: str) -> Mapping[str, tf.TensorSpec]:
        """Returns the inputs of a signature, by name."""
        return self.signatures[signature].structured_input_signature[1]

    def run(self, signature: str, inputs: SignatureInputs) -> dict[str, np.ndarray]:
        """Runs a signature; texts are returned as `bytes` in UTF-8.

        Raises:
            TypeError: An input is missing or unknown.
            tf.errors.OpError: The graph rejects the inputs.
        """
        dtypes = {name: of.dtype for name, of in self.input_specs(signature).items()}
        tensors = {
            name: tf.constant(values, dtypes.get(name))
            for name, values in inputs.items()
        }
        outputs = self.signatures[signature](**tensors)
        return {name: value.numpy() for name, value in outputs.items()}
