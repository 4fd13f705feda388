"""Golden and warm-up requests, which a server runs before it accepts clients.

Golden requests check the model's outputs; see `transbeam.serving.base.golden_requests`.
Warm-up requests prepare the server: TensorFlow selects kernels and allocates memory
when a shape first occurs. While loading a model, TF Serving runs the requests in
`assets.extra/tf_serving_warmup_requests`; Transbeam writes one request for each
signature and each length bucket.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from transbeam.pipeline.tokenizers.base.vocabulary import MASK, sentinel_pieces
from transbeam.serving.base.golden_requests import GoldenRequest, write_logs
from transbeam.serving.server.models.warmup_requests import FILE, MOST, Inputs
from transbeam.serving.signatures.base.interface import Endpoint, SignatureTask
from transbeam.serving.signatures.generation.generate_signatures import GenerationTask
from transbeam.serving.signatures.generation.streaming_signatures import STATE
from transbeam.serving.signatures.masked import MaskedTask
from transbeam.serving.signatures.span_corruption import SpanCorruptionTask
from transbeam.serving.text_ops.length_buckets import widths

(_SENTINEL,) = sentinel_pieces(1)
# Words, punctuation, other scripts and an empty text; rows of different lengths.
SAMPLES = (
    f"It returns a {MASK} of the same shape, or None.",
    f"No café, 漢字 and {_SENTINEL} 123.5!",
    "",
)
_TEXTS = frozenset({"text", "second_text", "target_text", "context", "question"})
_IMAGE_HEIGHT, _IMAGE_WIDTH = 20, 30

_LETTER = "a"
# Literals that the texts of some tasks must contain.
_MARKS = {MaskedTask: MASK, SpanCorruptionTask: _SENTINEL}
_FRAME = 4  # special tokens that a signature may add to those of `tokenize`
_NEW_TOKENS = 2  # the loop has the same shapes, however long it runs
_PARAMS = {
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
    "iterations": 2,
}
# Some tensors of a state have no batch axis. TF Serving's batching splits all requested
# outputs by rows, so it would fail and not load the model: only this one is requested.
_REQUESTED_OUTPUTS = {"stream_begin": "token_id"}


def sample_images() -> list[bytes]:
    r"""Returns a JPEG and a PNG, neither square nor of a single color.

    Example:
    >>> [image[:4] for image in sample_images()]
    [b'\xff\xd8\xff\xe0', b'\x89PNG']
    """
    rows, columns = tf.range(_IMAGE_HEIGHT)[:, tf.newaxis], tf.range(_IMAGE_WIDTH)
    planes = (12 * rows + 0 * columns, 8 * columns + 0 * rows, 13 * (rows - columns))
    pixels = tf.cast(tf.stack(planes, axis=2) % 256, tf.uint8)
    return [
        tf.io.encode_jpeg(pixels, quality=90).numpy(),
        tf.io.encode_png(pixels).numpy(),
    ]


def make_golden_requests(
    task: SignatureTask, dtype: str = "float32"
) -> Iterator[GoldenRequest]:
    """Yields a few requests with the outputs of the Keras model.

    Token ids and pixels must be equal to those in the golden requests. Of the outputs
    other than token ids and pixels, only floats are compared, as rounding may change
    the order of equally probable words, spans or tokens.

    Args:
        task: Has the signatures.
        dtype: The dtype of the computation, which is also the precision of the stored
            outputs.
    """
    endpoints = task.endpoints()
    # Generated tokens depend on rounding; the log-likelihood of a text is a number.
    read = "tokenize" if "tokenize" in endpoints else "pixels"
    names = (read, "score" if "score" in endpoints else "serving_default")
    for name in names:
        inputs = _golden_inputs(endpoints[name])
        found = endpoints[name].function(*map(tf.constant, inputs.values()))
        if name == read:
            outputs = {output: value.numpy() for output, value in found.items()}
        else:
            outputs = {
                output: tf.cast(value, dtype).numpy()
                for output, value in found.items()
                if value.dtype.is_floating
            }
        yield GoldenRequest(name, inputs, outputs)


def _golden_inputs(endpoint: Endpoint) -> dict[str, np.ndarray]:
    """Returns sample images, or sample texts in a different order for each input."""
    found: dict[str, np.ndarray] = {}
    for place, spec in enumerate(endpoint.inputs):
        name: Any = spec.name  # is given to each
        if name == "image_bytes":
            found[name] = np.array(sample_images(), object)
            continue
        assert name in _TEXTS, name
        rotated = [*SAMPLES[place:], *SAMPLES[:place]]
        found[name] = np.array([text.encode() for text in rotated], object)
    return found


def warm_up_inputs(task: SignatureTask) -> Iterator[tuple[str, Inputs]]:
    """Yields request inputs for each signature and length bucket or image format.

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
            yield name, _warm_up_inputs(endpoint, width, text)


def write_warm_up(folder: Path, task: SignatureTask) -> None:
    """Writes warm-up requests into a SavedModel.

    Args:
        folder: The version folder.
        task: Has the signatures.

    Raises:
        ArtifactError: The file cannot be written.
    """
    requests = islice(warm_up_inputs(task), MOST)
    logs = (_log(name, inputs, task.methods.get(name)) for name, inputs in requests)
    write_logs(folder / FILE, logs)


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
    """Returns a mapping from each bucket width to a text that fits it."""
    known = widths(task.max_length)
    texts = [" ".join([_LETTER] * count) for count in range(known[-1] + 1)]
    tokenize = task.endpoints()["tokenize"]
    columns = [
        texts if spec.name in ("text", "context") else [_LETTER] * len(texts)
        for spec in tokenize.inputs
    ]
    lengths = tokenize.function(*map(tf.constant, columns))["length"].numpy()
    fit = {width: np.flatnonzero(lengths <= width - _FRAME) for width in known[:-1]}
    found = {width: texts[indices.max(initial=0)] for width, indices in fit.items()}
    # Longer texts are cut to the widest bucket; but a prompt has to leave room.
    last = np.flatnonzero(lengths <= known[-1] - _FRAME).max(initial=0)
    found[known[-1]] = texts[last if isinstance(task, GenerationTask) else -1]
    mark = _MARKS.get(type(task))
    return {w: f"{mark} {text}" if mark else text for w, text in found.items()}


def _warm_up_inputs(endpoint: Endpoint, width: int, text: str) -> Inputs:
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
                value = [_PARAMS[input_name]]
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
        if signature in _REQUESTED_OUTPUTS:
            request.output_filter.append(_REQUESTED_OUTPUTS[signature])
    else:
        request = getattr(log, f"{method}_log").request
        examples = request.input.example_list.examples
        examples.extend(map(tf.train.Example.FromString, inputs["inputs"].tolist()))
    request.model_spec.signature_name = signature
    return log
