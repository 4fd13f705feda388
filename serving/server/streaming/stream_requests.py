"""Requests for streaming text generation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from grpc import StatusCode

from transbeam.serving.server.base.batched_arrays import Arrays
from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.inference.signature import ServableSignature
from transbeam.serving.server.protocol.generation_inputs import STOP
from transbeam.serving.server.protocol.json_tensors import Column
from transbeam.serving.server.protocol.json_text import parse_object, text_bytes

BEGIN, STEP = "stream_begin", "stream_step"
JOIN, KEEP = "stream_join", "stream_keep"
STREAMED = frozenset({BEGIN, STEP, JOIN, KEEP})
# Default sampling parameters for exports whose signatures have no defaults.
_OLD_DEFAULTS: Mapping[str, Any] = {
    "max_new_tokens": 0,
    "temperature": 0.0,
    "top_k": 0,
    "top_p": 1.0,
    "seed": 0,
}


@dataclass(frozen=True)
class StreamRequest:
    """A request for one generated text.

    Attributes:
        inputs: Inputs of `stream_begin`, each with one row.
        stops: Stop strings.
    """

    inputs: Arrays
    stops: tuple[bytes, ...] = ()


def can_stream(signatures: Mapping[str, ServableSignature]) -> bool:
    """Returns True if the model has the signatures for streaming."""
    return signatures.keys() >= STREAMED


def begin_signature(signatures: Mapping[str, ServableSignature]) -> ServableSignature:
    """Returns the signature that starts a stream.

    Raises:
        StatusError: The model does not have the signatures for streaming.
    """
    if not can_stream(signatures):
        raise StatusError(
            StatusCode.FAILED_PRECONDITION,
            f"the model cannot be streamed: it has no signature {BEGIN!r}. Models that "
            "write have it when `transbeam export` made them",
        )
    return signatures[BEGIN]


def read_stream(body: bytes, signature: ServableSignature) -> StreamRequest:
    """Parses a JSON object with text inputs and optional sampling parameters.

    Args:
        body: The JSON body, such as `{"text": "The", "max_new_tokens": 20, "stop":
            ["."]}`.
        signature: The signature `stream_begin`.

    Raises:
        StatusError: An input is missing, is unknown, or has the wrong type.
    """
    document = parse_object(body)
    stops = document.pop(STOP, [])
    stops = [stops] if isinstance(stops, str) else stops
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise invalid(f"{STOP}: expected a text, or a list of texts")
    found, forms = {}, signature.forms
    for name, value in document.items():
        if name in signature.dtypes:
            column = Column(signature.dtypes[name])
            try:
                column.add(forms[name](value) if name in forms else value)
            except StatusError as failure:
                raise invalid(f"{name}: {failure.message}") from None
            found[name] = column.array()
    _check_known(document, signature)
    return StreamRequest(_completed(found, signature), tuple(map(text_bytes, stops)))


def stream_request(given: Arrays, signature: ServableSignature) -> StreamRequest:
    """Creates a request from arrays of one value each.

    Args:
        given: The model's text inputs and optional sampling parameters; `stop` may have
            several values.
        signature: The signature `stream_begin`.

    Raises:
        StatusError: As `read_stream`.
    """
    given = dict(given)
    stops = np.atleast_1d(given.pop(STOP, np.array([], object)))
    if stops.size and stops.dtype.kind != "O":
        raise invalid(f"{STOP}: expected texts")
    _check_known(given, signature)
    rows = {name: np.atleast_1d(values) for name, values in given.items()}
    return StreamRequest(_completed(rows, signature), tuple(stops.ravel().tolist()))


def _check_known(given: Mapping[str, Any], signature: ServableSignature) -> None:
    if unknown := sorted(given.keys() - signature.dtypes.keys()):
        raise invalid(
            f"there is no input {unknown[0]!r}; expected some of "
            f"{', '.join([*signature.dtypes, STOP])}"
        )


def default_inputs(begin: ServableSignature) -> Arrays:
    """Returns the default values of optional inputs, each an array of one value."""
    if begin.defaults:
        return begin.defaults
    return {
        name: np.array([_OLD_DEFAULTS[name]], tf.as_dtype(dtype).as_numpy_dtype)
        for name, dtype in begin.dtypes.items()
        if name in _OLD_DEFAULTS
    }


def _completed(given: Arrays, signature: ServableSignature) -> Arrays:
    inputs = {**default_inputs(signature), **given}
    signature.check_inputs(inputs)
    signature.check_shapes(inputs)
    for name, values in inputs.items():
        if len(values) != 1:
            raise invalid(f"{name}: expected one value, found {len(values)}")
    return inputs
