"""Converts inputs of text generation that clients send as lists or objects.

For each text, a signature takes one string of stop strings, separated by `SEPARATOR`,
and one string of logit biases, such as `"50256:-100"`; clients send logit biases in the
format of OpenAI's API, `{"50256": -100}`; see
`transbeam.serving.signatures.generation.logit_bias`.
"""

import base64
from typing import Any

import numpy as np

from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.protocol.json_tensors import decode_base64, is_base64
from transbeam.serving.server.protocol.json_text import text_bytes
from transbeam.serving.text_ops.stop_strings import SEPARATOR

STOP = "stop"
_SEPARATOR = SEPARATOR.encode()


def json_of_list(value: Any) -> Any:
    r"""Joins a JSON list of stop strings; returns other values unchanged.

    Raises:
        StatusError: An element is not a string, or contains the separator.

    Example:
    >>> json_of_list(".")
    '.'
    >>> decode_base64(json_of_list([".", "ab"]))
    b'.\x1fab'
    """
    if not isinstance(value, list):
        return value
    joined = _joined([_bytes(one) for one in value])
    return {"b64": base64.b64encode(joined).decode()}


def rows_of_lists(values: np.ndarray) -> np.ndarray:
    """Joins rows of stop strings (B, S), padded with empty strings, to (B,).

    Raises:
        StatusError: A string contains the separator.
    """
    return np.array([_joined(row) for row in values.tolist()], object)


def json_of_object(value: Any) -> Any:
    """Converts a JSON object to a signature's string; returns other values unchanged.

    Raises:
        StatusError: A member is not a number.

    Example:
    >>> json_of_object({"50256": -100, "11": 2.5})
    '50256:-100,11:2.5'
    """
    if not isinstance(value, dict) or is_base64(value):
        return value
    for token, bias in value.items():
        if not token.isdecimal() or type(bias) not in (int, float):
            raise invalid(
                'logit_bias: expected an object such as {"50256": -100}, of token ids '
                "and numbers"
            )
    return ",".join(f"{token}:{bias!r}" for token, bias in value.items())


def split_stop_strings(joined: bytes) -> list[bytes]:
    """Splits a signature's string into stop strings."""
    return [stop for stop in joined.split(_SEPARATOR) if stop]


def _joined(stops: list[bytes]) -> bytes:
    for stop in stops:
        if _SEPARATOR in stop:
            raise invalid("stop: a string of a list cannot have U+001F in it")
    return _SEPARATOR.join(stops)


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return text_bytes(value)
    try:
        return decode_base64(value)
    except StatusError:
        raise invalid("stop: expected a text, or a list of texts") from None
