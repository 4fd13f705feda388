"""A client for a SavedModel on this machine."""

from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.base.saved_models import find_version
from transbeam.configs.system.native_output import output_held_back
from transbeam.serving.base.graph_errors import plain_message
from transbeam.serving.client.interface import (
    Client,
    Inputs,
    ServerError,
    SignatureTypes,
)


class LocalClient(Client):
    """Calls a local SavedModel; see `transbeam.serving.client.interface.Client`.

    Args:
        model: A version folder, or its parent folder, whose highest version is loaded.

    Raises:
        ArtifactError: There is no SavedModel, or it cannot be loaded.
    """

    def __init__(self, model: Path):
        folder = find_version(model)
        try:
            self._signatures = tf.saved_model.load(str(folder)).signatures
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise ArtifactError(
                f"{folder}: cannot be loaded as a SavedModel: {error}. Give the folder "
                "of a model exported by `transbeam export`"
            ) from error

    def signatures(self) -> dict[str, SignatureTypes]:
        return {
            name: SignatureTypes(
                _types(function.structured_input_signature[1]),
                _types(function.structured_outputs),
            )
            for name, function in self._signatures.items()
        }

    def ask(self, signature: str, inputs: Inputs) -> dict[str, np.ndarray]:
        function = self._signatures[signature]
        specs = function.structured_input_signature[1]
        tensors = {
            name: tf.constant(values, specs[name].dtype)
            for name, values in inputs.items()
        }
        with output_held_back():
            try:
                return {name: of.numpy() for name, of in function(**tensors).items()}
            except tf.errors.InvalidArgumentError as error:
                refusal = plain_message(error.message)
        raise ServerError("INVALID_ARGUMENT", refusal)


def _types(specs: dict[str, tf.TensorSpec]) -> dict[str, str]:
    return {
        name: f"DT_{spec.dtype.name.upper()}" for name, spec in sorted(specs.items())
    }
