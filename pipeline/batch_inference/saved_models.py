"""Finds the signatures of a SavedModel and runs a signature on texts.

Signatures are read without loading weights, so that a command fails early if a
signature is missing or unsuitable.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.base.reflection import did_you_mean
from transbeam.pipeline.runtimes.saved_model import SavedModelRunner, read_signatures

# The dtypes that both JSON and Parquet can represent.
_DTYPES = {
    *(tf.string, tf.bool, tf.float16, tf.bfloat16, tf.float32, tf.float64),
    *(tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
}


@dataclass(frozen=True)
class Output:
    """An output of a signature.

    Attributes:
        name: Its name.
        dtype: TensorFlow's name of the output's dtype.
        rank: The rank including the batch dimension, at least 1.
    """

    name: str
    dtype: str
    rank: int


@dataclass(frozen=True)
class TextSignature:
    """A signature that maps a batch of texts to tensors with one row per text.

    Attributes:
        folder: The SavedModel's version folder.
        name: The signature's name.
        input: The name of the signature's only input, string (B,).
        outputs: The outputs, in the order of their names.
    """

    folder: Path
    name: str
    input: str
    outputs: tuple[Output, ...]


def saved_model_fingerprint(folder: Path) -> str:
    """Returns a hash of all files of a SavedModel, 16 hex digits."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()[:16]


def read_signature(folder: Path, name: str) -> TextSignature:
    """Reads a signature without loading the model.

    Args:
        folder: The SavedModel's version folder.
        name: The signature's name.

    Raises:
        ArtifactError: The file is damaged, or the signature does not map texts to rows
            of strings, numbers or booleans.
        ConfigError: The SavedModel has no signature of this name.
    """
    signatures = read_signatures(folder)
    if name not in signatures:
        raise ConfigError(
            f"--signature {name}: {folder} has no such signature; it has "
            f"{', '.join(sorted(signatures)) or 'none'}."
            f"{did_you_mean(name, signatures)}"
        )
    definition, where = signatures[name], f"{folder}: its signature {name}"
    outputs = definition.outputs
    return TextSignature(
        folder=folder,
        name=name,
        input=_text_input(definition, where),
        outputs=tuple(_output(key, outputs[key], where) for key in sorted(outputs)),
    )


def _text_input(definition: SignatureDef, where: str) -> str:
    inputs = definition.inputs
    found = ", ".join(f"{key}: {_described(inputs[key])}" for key in sorted(inputs))
    for key, info in inputs.items():
        sizes = [dimension.size for dimension in info.tensor_shape.dim]
        free = info.tensor_shape.unknown_rank or sizes == [-1]
        if len(inputs) == 1 and info.dtype == tf.string and free:
            return key
    raise ArtifactError(
        f"{where} takes {found or 'nothing'}; expected one input, a batch of texts "
        "(string [None]). Choose another with --signature"
    )


def _output(name: str, info: TensorInfo, where: str) -> Output:
    shape = info.tensor_shape
    if tf.as_dtype(info.dtype) not in _DTYPES or shape.unknown_rank or not shape.dim:
        raise ArtifactError(
            f"{where} gives {name}: {_described(info)}; expected texts, numbers or "
            "truth values with a row for each text. Choose another with --signature"
        )
    return Output(name, tf.as_dtype(info.dtype).name, len(shape.dim))


def _described(info: TensorInfo) -> str:
    shape = info.tensor_shape
    sizes = [str(d.size) if d.size >= 0 else "None" for d in shape.dim]
    extent = "of unknown rank" if shape.unknown_rank else f"[{', '.join(sizes)}]"
    return f"{tf.as_dtype(info.dtype).name} {extent}"


class LoadedSignature:
    """A signature with its weights in memory.

    Args:
        signature: The signature to load.

    Raises:
        ArtifactError: The SavedModel cannot be loaded.
    """

    def __init__(self, signature: TextSignature):
        self.signature = signature
        self._model = SavedModelRunner(signature.folder)

    def ask(self, texts: Sequence[bytes]) -> dict[str, np.ndarray]:
        """Returns the outputs for some texts, by name.

        Args:
            texts: The texts, at least one, encoded as UTF-8.

        Returns:
            An array (B, ...) per output; string outputs are object arrays of bytes.

        Raises:
            ArtifactError: The model fails, or does not return one row per text.
        """
        signature = self.signature
        where = f"{signature.folder}: its signature {signature.name}"
        try:
            answers = self._model.run(signature.name, {signature.input: texts})
        except tf.errors.ResourceExhaustedError as error:
            raise ArtifactError(
                f"{where} ran out of memory on {len(texts)} texts. Choose a smaller "
                "--batch-size"
            ) from error
        except tf.errors.OpError as error:
            reason = error.message.rpartition("unavailable>\n")[2].partition("\n")[0]
            raise ArtifactError(
                f"{where} fails: {reason}. Does it take plain texts? Choose another "
                "with --signature"
            ) from error
        found = {output.name: answers[output.name] for output in signature.outputs}
        for name, array in found.items():
            if len(array) != len(texts):
                raise ArtifactError(
                    f"{where} gives {len(array)} rows of {name} for {len(texts)} "
                    "texts; expected one for each. Choose another with --signature"
                )
        return found
