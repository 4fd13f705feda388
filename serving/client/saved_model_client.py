"""A client for a SavedModel on this machine."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from transbeam.configs.base.saved_models import find_version
from transbeam.configs.system.native_output import output_on_error
from transbeam.pipeline.runtimes.saved_model import SavedModelRunner
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
        model: A version folder, or its parent, from which the highest version is
            loaded.

    Raises:
        ArtifactError: There is no SavedModel, or it cannot be loaded.
    """

    def __init__(self, model: Path):
        self._model = SavedModelRunner(find_version(model))

    def signatures(self) -> dict[str, SignatureTypes]:
        return {
            name: SignatureTypes(
                _types(function.structured_input_signature[1]),
                _types(function.structured_outputs),
            )
            for name, function in self._model.signatures.items()
        }

    def ask(self, signature: str, inputs: Inputs) -> dict[str, np.ndarray]:
        with output_on_error():
            try:
                return self._model.run(signature, inputs)
            except tf.errors.InvalidArgumentError as error:
                refusal = plain_message(error.message)
        raise ServerError("INVALID_ARGUMENT", refusal)


def _types(specs: dict[str, tf.TensorSpec]) -> dict[str, str]:
    return {
        name: f"DT_{spec.dtype.name.upper()}" for name, spec in sorted(specs.items())
    }
