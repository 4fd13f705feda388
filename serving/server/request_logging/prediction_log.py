"""A request and its answer, as a `PredictionLog`.

https://github.com/tensorflow/serving/blob/master/tensorflow_serving/apis/prediction_log.proto.
What is kept until there is time for it are the arrays and messages that a request has
come with; the log is made of them where nobody waits.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    input_pb2,
    model_pb2,
    prediction_log_pb2,
    regression_pb2,
)

from transbeam.serving.server.base.batched_arrays import Arrays
from transbeam.serving.server.protocol.tensor_proto import to_proto

_TAG = "serve"
_FEW = 1024


@dataclass(frozen=True)
class Entry:
    """What is to be written down.

    Attributes:
        spec: Who answered.
        size: Bytes that it keeps in memory, about.
        fill: Puts the request and the answer into a log.
        seconds: When, since the epoch.
    """

    spec: model_pb2.ModelSpec
    size: int
    fill: Callable[[prediction_log_pb2.PredictionLog], None]
    seconds: int = field(default_factory=lambda: int(time.time()))

    def log(self, share: float) -> prediction_log_pb2.PredictionLog:
        """The whole log.

        Args:
            share: Of the requests that are written down, for who counts them.
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
    asked: model_pb2.ModelSpec,
    inputs: Arrays,
    output_filter: Sequence[str],
    spec: model_pb2.ModelSpec,
    outputs: Arrays,
) -> Entry:
    """Of a Predict request.

    Args:
        asked: Who was asked.
        inputs: Whole.
        output_filter: Of the request.
        spec: Who answered.
        outputs: The answer.
    """

    def fill(log: prediction_log_pb2.PredictionLog) -> None:
        request, response = log.predict_log.request, log.predict_log.response
        request.model_spec.CopyFrom(asked)
        request.output_filter.extend(output_filter)
        response.model_spec.CopyFrom(spec)
        for name, values in inputs.items():
            request.inputs[name].CopyFrom(_tensor(values))
        for name, values in outputs.items():
            response.outputs[name].CopyFrom(_tensor(values))

    size = sum(map(_bytes, [*inputs.values(), *outputs.values()]))
    return Entry(spec, size, fill)


def examples_entry(
    kind: Literal["classify_log", "regress_log"],
    asked: model_pb2.ModelSpec,
    examples: input_pb2.Input,
    response: (
        classification_pb2.ClassificationResponse | regression_pb2.RegressionResponse
    ),
) -> Entry:
    """Of a Classify or Regress request.

    Args:
        kind: Which of them.
        asked: Who was asked.
        examples: The question.
        response: The answer.
    """

    def fill(log: prediction_log_pb2.PredictionLog) -> None:
        found = getattr(log, kind)
        found.request.model_spec.CopyFrom(asked)
        found.request.input.CopyFrom(examples)
        found.response.CopyFrom(response)

    size = examples.ByteSize() + response.ByteSize()
    return Entry(response.model_spec, size, fill)


def multi_inference_entry(
    spec: model_pb2.ModelSpec,
    request: inference_pb2.MultiInferenceRequest,
    response: inference_pb2.MultiInferenceResponse,
) -> Entry:
    """Of a MultiInference request.

    Args:
        spec: Who answered; of several signatures.
        request: The question.
        response: The answer.
    """

    def fill(log: prediction_log_pb2.PredictionLog) -> None:
        log.multi_inference_log.request.CopyFrom(request)
        log.multi_inference_log.response.CopyFrom(response)

    return Entry(spec, request.ByteSize() + response.ByteSize(), fill)


def _tensor(values: np.ndarray) -> tensor_pb2.TensorProto:
    """Many numbers as their bytes: while Python makes a list, no other thread runs."""
    if values.dtype.kind in "OSU" or values.size <= _FEW:
        return to_proto(values)
    return tf.make_tensor_proto(values)


def _bytes(values: np.ndarray) -> int:
    texts = sum(map(len, values.flat)) if values.dtype.kind == "O" else 0
    return values.nbytes + texts
