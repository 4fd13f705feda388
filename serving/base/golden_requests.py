"""Golden requests: inputs with their expected outputs, stored in a SavedModel.

If a file was damaged in transfer, the vocabulary was swapped or a library computes
different values, a model may still run but return wrong outputs. `transbeam export`
stores a few requests with their outputs next to the warm-up requests, in the format of
TF Serving's logs; `transbeam serve` runs these requests before it accepts clients.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from transbeam.configs.base.atomic_files import writing

FILE = "assets.extra/golden_requests"
# Another CPU or version of TensorFlow rounds differently; a broken model has larger
# errors. Outputs in half precision need a larger tolerance.
TOLERANCE = 1e-2
_TOLERANCE_OF_HALF = 1e-1

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class GoldenRequest:
    """A golden request: the inputs of a signature and the expected outputs.

    Attributes:
        signature: The name of the signature.
        inputs: All inputs of the signature.
        outputs: The expected values of the outputs to compare.
    """

    signature: str
    inputs: Arrays
    outputs: Arrays

    def difference(self, found: Arrays) -> str | None:
        """Describes the first output that differs from the expected one; else None.

        Example:
        >>> golden = GoldenRequest("score", {}, {"score": np.array([0.5], np.float32)})
        >>> golden.difference({"score": np.array([0.501], np.float32)})
        >>> golden.difference({"score": np.array([0.75], np.float32)})
        'score: off by 0.25, at most 0.01 is rounding'
        """
        for name, expected in self.outputs.items():
            if found[name].shape != expected.shape:
                return f"{name}: of shape {found[name].shape}, not {expected.shape}"
            is_half = expected.dtype == tf.bfloat16.as_numpy_dtype
            if expected.dtype.kind != "f" and not is_half:
                if (found[name] != expected).any():
                    return f"{name}: {_shown(found[name])}, not {_shown(expected)}"
                continue
            wide = expected.astype(np.float32)
            scale = np.maximum(np.abs(wide), 1.0)
            off = float(np.max(np.abs(found[name] - wide) / scale, initial=0.0))
            most = _TOLERANCE_OF_HALF if is_half else TOLERANCE
            if not off <= most:
                return f"{name}: off by {off:.3g}, at most {most:g} is rounding"
        return None


def write_golden(folder: Path, questions: Iterable[GoldenRequest]) -> None:
    """Writes golden requests into a SavedModel.

    Args:
        folder: The version folder.
        questions: The requests with their expected outputs.

    Raises:
        ArtifactError: The file cannot be written.
    """
    logs = []
    for question in questions:
        log = prediction_log_pb2.PredictionLog()
        request, response = log.predict_log.request, log.predict_log.response
        request.model_spec.signature_name = question.signature
        for name, value in question.inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        for name, value in question.outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        logs.append(log)
    write_logs(folder / FILE, logs)


def write_logs(file: Path, logs: Iterable[prediction_log_pb2.PredictionLog]) -> None:
    """Writes requests in the format of TF Serving's logs.

    Args:
        file: The file to write; its folder is created if it does not exist.
        logs: The requests, with or without their responses.

    Raises:
        ArtifactError: The file cannot be written.
    """
    with writing(file):
        file.parent.mkdir(exist_ok=True)
        with tf.io.TFRecordWriter(str(file)) as writer:
            for log in logs:
                writer.write(log.SerializeToString())


def read_golden(folder: Path) -> Iterator[GoldenRequest]:
    """Reads the golden requests of a SavedModel; yields nothing if it has none.

    Args:
        folder: The version folder.
    """
    file = folder / FILE
    if not file.is_file():
        return
    for record in tf.data.TFRecordDataset(str(file)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log
        yield GoldenRequest(
            log.request.model_spec.signature_name,
            {name: tf.make_ndarray(of) for name, of in log.request.inputs.items()},
            {name: tf.make_ndarray(of) for name, of in log.response.outputs.items()},
        )


def _shown(values: np.ndarray) -> str:
    text = str(values.ravel()[:8].tolist())
    return text if values.size <= 8 else f"{text[:-1]}, …]"
