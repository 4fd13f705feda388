"""Warm-up requests, which a model server runs before it accepts others.

TensorFlow selects kernels and allocates memory when a shape first occurs. While it
loads a model, TF Serving runs the requests in
`assets.extra/tf_serving_warmup_requests`; here that is one for each signature and each
length bucket.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from transbeam.configs.base.atomic_files import writing
from transbeam.pipeline.tokenizers.base.vocabulary import MASK, sentinel_pieces
from transbeam.serving.images.samples import sample_images
from transbeam.serving.server.models.warmup_requests import FILE, MOST, Inputs
from transbeam.serving.signatures.base.interface import Endpoint, SignatureTask
from transbeam.serving.signatures.generation.generate_signatures import GenerationTask
from transbeam.serving.signatures.generation.streaming_signatures import STATE
from transbeam.serving.signatures.masked import MaskedTask
from transbeam.serving.signatures.span_corruption import SpanCorruptionTask
from transbeam.serving.text_ops.length_buckets import widths

_LETTER = "a"
# Literals that the texts of some tasks must contain.
_MARKS = {MaskedTask: MASK, SpanCorruptionTask: sentinel_pieces(1)[0]}
_FRAME = 4  # special tokens that a signature may add to those of `tokenize`
_NEW_TOKENS = 2  # the loop has the same shapes, however long it runs
_WISHES = {
    "max_new_tokens": _NEW_TOKENS,
    "temperature": 1.0,
    "top_k": 2,
    "top_p": 0.9,
    "seed": 0,
    "min_p": 0.1,
    "repetition_penalty": 1.1,
    "no_repeat_ngram_size": 2,
    "logit_bias": "0:1",
    "stop": "stop",
    "num_beams": 2,
    "length_penalty": 1.0,
}
# Some tensors of a state have no batch axis. TF Serving's batching splits all requested
# outputs by rows, so it would fail and not load the model: only this one is requested.
_ASKED_FOR = {"stream_begin": "token_id"}


def warm_up_inputs(task: SignatureTask) -> Iterator[tuple[str, Inputs]]:
    """Yields the inputs of a request per signature and length bucket, or image format.

    Args:
        task: Has the signatures.

    Yields:
        The signature's name, and its inputs for one text or image.
    """
    if "pixels" in task.endpoints():
        yield from _of_images(task)
        return
    texts = _texts(task)
    for name, endpoint in task.endpoints().items():
        if any(str(spec.name).startswith(STATE) for spec in endpoint.inputs):
            continue  # only a server that has a state can call these
        for width, text in texts.items():
            yield name, _inputs(endpoint, width, text)


def write_warm_up(folder: Path, task: SignatureTask) -> None:
    """Writes warm-up requests into a SavedModel.

    Args:
        folder: The version folder.
        task: Has the signatures.

    Raises:
        ArtifactError: The file cannot be written.
    """
    file = folder / FILE
    with writing(file):
        file.parent.mkdir(exist_ok=True)
        with tf.io.TFRecordWriter(str(file)) as writer:
            for signature, inputs in islice(warm_up_inputs(task), MOST):
                log = _log(signature, inputs, task.methods.get(signature))
                writer.write(log.SerializeToString())


def _of_images(task: SignatureTask) -> Iterator[tuple[str, Inputs]]:
    (endpoint,) = task.phone_endpoints().values()
    (image,) = endpoint.inputs  # of shape (1, S, S, P)
    for file in sample_images():
        given = {
            "image_bytes": file,
            "inputs": _example(image_bytes=file),
            "image": tf.zeros(image.shape[1:], tf.uint8).numpy(),
        }
        for name, endpoint in task.endpoints().items():
            (spec,) = endpoint.inputs
            value = [given[str(spec.name)]]
            yield name, {str(spec.name): np.array(value, spec.dtype.as_numpy_dtype)}


def _texts(task: SignatureTask) -> dict[int, str]:
    """Returns a text for each bucket width, whatever special tokens are added."""
    known = widths(task.max_length)
    texts = [" ".join([_LETTER] * count) for count in range(known[-1] + 1)]
    tokenize = task.endpoints()["tokenize"]
    columns = [
        texts if spec.name in ("text", "context") else [_LETTER] * len(texts)
        for spec in tokenize.inputs
    ]
    lengths = tokenize.function(*map(tf.constant, columns))["length"].numpy()
    fit = {width: np.flatnonzero(lengths <= width - _FRAME) for width in known[:-1]}
    found = {width: texts[places.max(initial=0)] for width, places in fit.items()}
    # Longer texts are cut to the widest bucket; but a prompt has to leave room.
    last = np.flatnonzero(lengths <= known[-1] - _FRAME).max(initial=0)
    found[known[-1]] = texts[last if isinstance(task, GenerationTask) else -1]
    mark = _MARKS.get(type(task))
    return {w: f"{mark} {text}" if mark else text for w, text in found.items()}


def _inputs(endpoint: Endpoint, width: int, text: str) -> Inputs:
    """Returns the inputs for one text of a given width."""
    found: dict[str, np.ndarray] = {}
    writes = any(spec.name == "max_new_tokens" for spec in endpoint.inputs)
    for spec in endpoint.inputs:
        input_name: Any = spec.name  # is given to each
        match input_name.removeprefix("encoder_").removeprefix("decoder_"):
            case "token_ids" | "padding_mask" | "prefix_mask" | "segment_ids":
                # Id 1 is in every vocabulary.
                value: Any = [[int(input_name != "segment_ids")] * width]
            case "masked_positions":
                value = [[0]]
            case "length" | "prefix_length":
                value = [max(width - _NEW_TOKENS, 1) if writes else width]
            case "words":
                value = [text.split() or [_LETTER]]
            case "second_text" | "target_text" | "question":
                value = [_LETTER]
            case "inputs":
                value = [_example(text=text.encode(), second_text=_LETTER.encode())]
            case "text" | "context":
                value = [text]
            case _:
                value = [_WISHES[input_name]]
        found[input_name] = np.array(value, spec.dtype.as_numpy_dtype)
    return found


def _example(**features: bytes) -> bytes:
    example = tf.train.Example()
    for name, value in features.items():
        example.features.feature[name].bytes_list.value.append(value)
    return example.SerializeToString()


def _log(
    signature: str, inputs: Inputs, method: str | None
) -> prediction_log_pb2.PredictionLog:
    log = prediction_log_pb2.PredictionLog()
    if method is None:
        request = log.predict_log.request
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        if signature in _ASKED_FOR:
            request.output_filter.append(_ASKED_FOR[signature])
    else:
        request = getattr(log, f"{method}_log").request
        examples = request.input.example_list.examples
        examples.extend(map(tf.train.Example.FromString, inputs["inputs"].tolist()))
    request.model_spec.signature_name = signature
    return log
