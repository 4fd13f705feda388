"""Creates `PredictionLog` messages from requests and responses.

https://github.com/tensorflow/serving/blob/master/tensorflow_serving/apis/prediction_log.proto.
Only references to the arrays and messages of a request are queued; the log message is
created later in the writing thread, so that no client waits for it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    inference_pb2,
    input_pb2,
    model_pb2,
    prediction_log_pb2,
)

from transbeam.serving.server.base.batched_arrays import Arrays
from transbeam.serving.server.inference.classify_regress import Response
from transbeam.serving.server.protocol.tensor_proto import to_proto

_TAG = "serve"
_FEW = 1024


@dataclass(frozen=True)
class Entry:
    """A request and its response, to be logged.

    Attributes:
        spec: Model spec of the response.
        size: Approximate size in memory, in bytes.
        fill: Copies the request and the response into a log message.
        seconds: Time of the response, in seconds since the epoch.
    """

    spec: model_pb2.ModelSpec
    size: int
    fill: Callable[[prediction_log_pb2.PredictionLog], None]
    seconds: int = field(default_factory=lambda: int(time.time()))

    def log(self, share: float) -> prediction_log_pb2.PredictionLog:
        """Creates the log message.

        Args:
            share: Sampling rate, which is recorded in the message.
        """
        log = prediction_log_pb2.PredictionLog()
        metadata = log.log_metadata
        metadata.model_spec.CopyFrom(self.spec)
        metadata.sampling_config.sampling_rate = share
        metadata.saved_model_tags.append(_TAG)
        metadata.timestamp_secs = self.seconds
        self.fill(log)
        return log


def predict_entry(
    request_spec: model_pb2.ModelSpec,
    inputs: Arrays,
    output_filter: Sequence[str],
    spec: model_pb2.ModelSpec,
    outputs: Arrays,
) -> Entry:
    """Creates the entry of a Predict request.

    Args:
        request_spec: Model spec of the request.
        inputs: All inputs, defaults included.
        output_filter: Output filter of the request.
        spec: Model spec of the response.
        outputs: Outputs of the response.
    """

    def fill(log: prediction_log_pb2.PredictionLog) -> None:
        request, response = log.predict_log.request, log.predict_log.response
        request.model_spec.CopyFrom(request_spec)
        request.output_filter.extend(output_filter)
        response.model_spec.CopyFrom(spec)
        for name, values in inputs.items():
            request.inputs[name].CopyFrom(_tensor(values))
        for name, values in outputs.items():
            response.outputs[name].CopyFrom(_tensor(values))

    return Entry(spec, sum(map(_bytes, [*inputs.values(), *outputs.values()])), fill)


def examples_entry(
    kind: str,
    request_spec: model_pb2.ModelSpec,
    examples: input_pb2.Input,
    response: Response,
) -> Entry:
    """Creates the entry of a Classify or Regress request.

    Args:
        kind: `classify_log` or `regress_log`.
        request_spec: Model spec of the request.
        examples: Input of the request.
        response: The response.
    """

    def fill(log: prediction_log_pb2.PredictionLog) -> None:
        found = getattr(log, kind)
        found.request.model_spec.CopyFrom(request_spec)
        found.request.input.CopyFrom(examples)
        found.response.CopyFrom(response)

    return Entry(response.model_spec, examples.ByteSize() + response.ByteSize(), fill)


def multi_inference_entry(
    spec: model_pb2.ModelSpec,
    request: inference_pb2.MultiInferenceRequest,
    response: inference_pb2.MultiInferenceResponse,
) -> Entry:
    """Creates the entry of a MultiInference request.

    Args:
        spec: Model spec without a signature, because the request has several
            signatures.
        request: The request.
        response: The response.
    """

    def fill(log: prediction_log_pb2.PredictionLog) -> None:
        log.multi_inference_log.request.CopyFrom(request)
        log.multi_inference_log.response.CopyFrom(response)

    return Entry(spec, request.ByteSize() + response.ByteSize(), fill)


def _tensor(values: np.ndarray) -> tensor_pb2.TensorProto:
    """Converts an array; many numbers become raw bytes, as lists block all threads."""
    if values.dtype.kind in "OSU" or values.size <= _FEW:
        return to_proto(values)
    return tf.make_tensor_proto(values)


def _bytes(values: np.ndarray) -> int:
    return values.nbytes + (
        sum(map(len, values.flat)) if values.dtype.kind == "O" else 0
    )
