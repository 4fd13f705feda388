"""Runs a signature that takes ids, of a SavedModel or of a TFLite file."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.pipeline.runtimes.saved_model import SavedModelRunner, read_signatures

Arrays = Mapping[str, np.ndarray]
# From a batch of records to a model's outputs for it.
Outputs = Callable[[Mapping[str, np.ndarray]], Arrays]


class SavedModelSignature:
    """A signature of a SavedModel, run in Python.

    Attributes:
        inputs: The names of the signature's inputs.
    """

    def __init__(self, folder: Path, signature: str):
        _require(folder, signature, read_signatures(folder))
        self._model = SavedModelRunner(folder)
        self._folder, self._name = folder, signature
        self.inputs = set(self._model.input_specs(signature))

    def __call__(self, inputs: Arrays) -> Arrays:
        try:
            return self._model.run(self._name, inputs)
        except (TypeError, tf.errors.OpError) as error:
            raise ArtifactError(
                f"{self._folder}: its signature {self._name} fails on records of this "
                f"run: {error}. Was it exported from another one?"
            ) from error


class TFLiteSignature:
    """A signature of a TFLite file, run row by row, in fixed shapes.

    Attributes:
        inputs: The names of the signature's inputs.
        sizes: Length of the second axis of each input.
    """

    def __init__(self, file: Path, signature: str):
        self._model = TFLiteRunner(file, resized=False)
        _require(file, signature, self._model.signatures)
        self._file, self._name = file, signature
        shapes = self._model.shapes(signature)
        self.sizes = {name: shape[1] for name, shape in shapes.items()}
        self.inputs = set(self.sizes)

    def __call__(self, inputs: Arrays) -> Arrays:
        for name, rows in inputs.items():
            if rows.shape[1] > self.sizes[name]:
                raise ArtifactError(
                    f"{self._file}: its input {name} holds {self.sizes[name]} numbers, "
                    f"and these records have a row of {rows.shape[1]}: it was exported "
                    "from another run"
                )
        number = len(next(iter(inputs.values())))
        rows = [{name: of[row] for name, of in inputs.items()} for row in range(number)]
        found = [self._model.ask(self._name, **row) for row in rows]
        return {name: np.stack([one[name] for one in found]) for name in found[0]}


# Inputs are ids, int32 (D, N), or images, uint8 (D, H, W, P). The outputs have as many
# rows.
ExportedSignature = SavedModelSignature | TFLiteSignature


def load_signature(path: Path, signature: str) -> ExportedSignature:
    """Loads a signature of an export.

    Args:
        path: A TFLite file, or the version folder of a SavedModel.
        signature: The signature's name.

    Raises:
        ArtifactError: The export cannot be loaded, or has no such signature.
    """
    if path.suffix == ".tflite":
        return TFLiteSignature(path, signature)
    return SavedModelSignature(path, signature)


def _require(path: Path, signature: str, signatures: Collection[str]) -> None:
    has = ", ".join(sorted(signatures)) or "none"
    if signature not in signatures:
        raise ArtifactError(
            f"{path}: has the signatures {has}; to be evaluated it needs {signature}, "
            "from ids to all scores. An older export that has none has to be repeated "
            "with another version: `transbeam export CONFIG --set export.version=2`"
        )
