"""Makes the requests of a load test."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from transbeam.configs.base.errors import ConfigError
from transbeam.serving.client.interface import NUMBERS, Client, SignatureTypes

if TYPE_CHECKING:
    from transbeam.serving.loadtest.load_loops import SendRequest

_TEXT = "text"
_NO, _YES = ("0", "false"), ("1", "true")


def request_sender(
    client: Client,
    signature: str,
    texts: Sequence[str],
    others: Sequence[str] = (),
    *,
    rows: int,
) -> "SendRequest":
    """Returns a function that calls a signature with the next `rows` texts, cyclically.

    Args:
        client: Of the model.
        signature: The name of a signature whose inputs are `text` and the inputs in
            `others`.
        texts: At least one.
        others: `NAME=VALUE` for each input besides `text`; each row gets the same
            value.
        rows: The number of texts per request.

    Raises:
        ConfigError: The signature does not exist, or has other inputs than these.
    """
    known = client.signatures().get(signature)
    values = dict(map(_pair, others))
    if known is None or set(known.inputs) != {_TEXT, *values}:
        takes = ", ".join(sorted(known.inputs)) if known else "nothing: there is none"
        raise ConfigError(
            f"the signature {signature} takes {takes}; expected one that takes a text, "
            "with --with NAME=VALUE for each other input"
        )
    constants = _constants(known, values, rows)

    def send(number: int) -> object:
        chosen = [
            texts[index % len(texts)]
            for index in range(number * rows, (number + 1) * rows)
        ]
        return client.ask(signature, {_TEXT: chosen, **constants})

    return send


def _pair(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not (name and equals):
        raise ConfigError(
            f"--with {given}: expected NAME=VALUE, such as --with max_new_tokens=32"
        )
    return name, value


def _constants(
    signature: SignatureTypes, values: Mapping[str, str], rows: int
) -> dict[str, np.ndarray]:
    """Returns inputs that have the same value in each row."""
    found = {}
    for name, text in values.items():
        kind = signature.inputs[name]
        dtype = np.dtype(NUMBERS.get(kind, np.object_))
        try:
            value = _value(text, dtype)
        except (ValueError, OverflowError):
            raise ConfigError(
                f"--with {name}={text}: expected a {kind.removeprefix('DT_')}"
            ) from None
        found[name] = np.full(rows, value, dtype)
    return found


def _value(text: str, dtype: np.dtype) -> object:
    if dtype == np.bool_:
        if text.lower() not in _NO + _YES:
            raise ValueError
        return text.lower() in _YES
    if dtype == np.object_:
        return text
    return np.array([int(text) if dtype.kind in "iu" else float(text)], dtype)[0]
