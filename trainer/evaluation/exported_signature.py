"""Runs a signature that takes ids, of a SavedModel or of a TFLite file."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.system.native_output import output_held_back
from transbeam.pipeline.batch_inference.saved_models import read_signatures

Arrays = Mapping[str, np.ndarray]
# From a batch of records to a model's outputs for it.
Outputs = Callable[[Mapping[str, np.ndarray]], Arrays]


class ExportedSignature(Protocol):
    """A signature of an export that takes ids or pixels."""

    @property
    def inputs(self) -> Collection[str]:
        """The names of its inputs."""
        ...

    def __call__(self, inputs: Arrays) -> Arrays:
        """Computes the outputs for a batch, with a row for each row of the inputs.

        Inputs are int32 (D, N); images are uint8 (D, H, W, P).
        """
        ...


def load_signature(path: Path, signature: str) -> "ExportedSignature":
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


class SavedModelSignature:
    """A signature of a SavedModel, run in Python."""

    def __init__(self, folder: Path, signature: str):
        _require(folder, signature, read_signatures(folder))
        try:
            # The model is referenced, as it holds the weights.
            self._model: Any = tf.saved_model.load(str(folder))
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise ArtifactError(
                f"{folder}: cannot be loaded as a SavedModel: {error}. Export it anew"
            ) from error
        self._folder, self._name = folder, signature
        self._signature = self._model.signatures[signature]
        self.inputs = set(self._signature.structured_input_signature[1])

    def __call__(self, inputs: Arrays) -> Arrays:
        tensors = {name: tf.constant(rows) for name, rows in inputs.items()}
        try:
            answers = self._signature(**tensors)
        except (TypeError, tf.errors.OpError) as error:
            raise ArtifactError(
                f"{self._folder}: its signature {self._name} fails on records of this "
                f"run: {error}. Was it exported from another one?"
            ) from error
        return {name: value.numpy() for name, value in answers.items()}


class TFLiteSignature:
    """A signature of a TFLite file, run row by row, in fixed shapes.

    Attributes:
        sizes: Length of the second axis of each input.
    """

    def __init__(self, file: Path, signature: str):
        try:
            with output_held_back():
                self._interpreter = Interpreter(str(file))
        except (OSError, ValueError, RuntimeError) as error:
            raise ArtifactError(
                f"{file}: cannot be read as a TFLite model: {error}. Export it anew"
            ) from error
        _require(file, signature, self._interpreter.get_signature_list())
        self._file = file
        with output_held_back():
            self._run = self._interpreter.get_signature_runner(signature)
            details = self._run.get_input_details()
            self.sizes = {name: int(of["shape"][1]) for name, of in details.items()}
            # The first call creates the delegate, and logs that.
            self({n: np.ones(of["shape"], of["dtype"]) for n, of in details.items()})

    @property
    def inputs(self) -> Collection[str]:
        return self.sizes

    def __call__(self, inputs: Arrays) -> Arrays:
        for name, rows in inputs.items():
            if rows.shape[1] > self.sizes[name]:
                raise ArtifactError(
                    f"{self._file}: its input {name} holds {self.sizes[name]} numbers, "
                    f"and these records have a row of {rows.shape[1]}: it was exported "
                    "from another run"
                )
        padded = {}
        for name, rows in inputs.items():
            ends = [(0, 0)] * rows.ndim
            ends[1] = 0, self.sizes[name] - rows.shape[1]
            padded[name] = np.pad(rows, ends)
        number = len(next(iter(padded.values())))
        # Copies, as the next call overwrites the interpreter's output buffers.
        found = [
            {
                name: np.array(answer[0])
                for name, answer in self._run(
                    **{name: rows[row : row + 1] for name, rows in padded.items()}
                ).items()
            }
            for row in range(number)
        ]
        return {name: np.stack([one[name] for one in found]) for name in found[0]}


def _require(path: Path, signature: str, signatures: Collection[str]) -> None:
    has = ", ".join(sorted(signatures)) or "none"
    if signature not in signatures:
        raise ArtifactError(
            f"{path}: has the signatures {has}; to be evaluated it needs {signature}, "
            "from ids to all scores. An export made before there was one is made anew "
            "with another version: `transbeam export CONFIG --set export.version=2`"
        )
