"""Reads the warm-up requests of a SavedModel.

The warm-up requests are written by `transbeam.serving.export.stored_requests`; this
module only reads them and does not import Keras.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import inference_pb2, prediction_log_pb2

from transbeam.serving.server.protocol.tf_examples import serialized_examples

FILE = "assets.extra/tf_serving_warmup_requests"
# TF Serving's maximum number of warm-up requests.
MOST = 1000

Inputs = Mapping[str, np.ndarray]
# A signature name (empty for the default) and its inputs; or a MultiInference request.
WarmUp = tuple[str, Inputs] | inference_pb2.MultiInferenceRequest


def read_warm_up(folder: Path) -> Iterator[WarmUp]:
    """Reads the warm-up requests of a SavedModel.

    Args:
        folder: The version folder, with or without warm-up requests.

    Yields:
        Predict, Classify, Regress and MultiInference requests; requests of other APIs
        are skipped.

    Raises:
        StatusError: A request has no examples, or its context is too large to be copied
            into all its examples.
    """
    file = folder / FILE
    if not file.is_file():
        return
    for record in tf.data.TFRecordDataset(str(file)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        kind = log.WhichOneof("log_type")
        if kind == "multi_inference_log":
            yield log.multi_inference_log.request
        if kind not in ("predict_log", "classify_log", "regress_log"):
            continue
        request = getattr(log, kind).request
        if kind == "predict_log":
            inputs = {n: tf.make_ndarray(value) for n, value in request.inputs.items()}
        else:
            inputs = {"inputs": serialized_examples(request.input)}
        yield request.model_spec.signature_name, inputs
