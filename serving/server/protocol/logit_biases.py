"""Converts logit biases from the form of OpenAI's API, such as `{"50256": -100}`.

A signature takes a string for each text, `"50256:-100"`; see
`transbeam.serving.signatures.generation.logit_bias`.
"""

from typing import Any

from transbeam.serving.server.base.status import invalid
from transbeam.serving.server.protocol.json_tensors import is_base64


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
