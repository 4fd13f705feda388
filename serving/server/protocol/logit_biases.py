"""Numbers added to the scores of tokens, as OpenAI's API has them: `{"50256": -100}`.

A signature takes a string for each text, `"50256:-100"`; see
`transbeam.serving.signatures.generation.logit_bias`.
"""

from typing import Any

from transbeam.serving.server.base.status import invalid
from transbeam.serving.server.protocol.json_tensors import is_base64


def json_of_object(value: Any) -> Any:
    """A JSON object as the text that a signature takes; others as they are.

    Raises:
        Failure: It has something else than numbers in it.

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
