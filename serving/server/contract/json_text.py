"""JSON as TF Serving reads and writes it.

Its reader is RapidJSON, with NaN and the infinities allowed and with whatever follows
the first value left unread. Sentences of errors are RapidJSON's: clients match on them.
"""

import json
import math
import re
from json import JSONDecodeError
from typing import Any

from serving.server.failures import invalid

# Deeper than any tensor: what nests further is not a request.
DEPTH = 64
_SHOWN = 500  # characters of a value that a message quotes


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(text)
    return number


_DECODER = json.JSONDecoder()
# Python reads 1e400 as infinity. To look at each number takes twice as long, so only
# where one may be as large as that.
_LARGE = re.compile(r"[eE]\+?0*\d{3}|\d{300}")
_CAREFUL_DECODER = json.JSONDecoder(parse_float=_finite)
_ENCODER = json.JSONEncoder(indent=4, ensure_ascii=False)
_SENTENCES = {
    "Expecting value": "Invalid value.",
    "Expecting property name enclosed in double quotes": (
        "Missing a name for object member."
    ),
    "Illegal trailing comma before end of object": "Missing a name for object member.",
    "Illegal trailing comma before end of array": "Invalid value.",
    "Expecting ':' delimiter": "Missing a colon after a name of object member.",
    "Expecting ',' delimiter": (
        "Missing a comma or } after an object member, or a comma or ] after an array "
        "element."
    ),
    "Unterminated string starting at": "Missing a closing quotation mark in string.",
    "Invalid \\escape": "Invalid escape character in string.",
    "Invalid \\uXXXX escape": "Incorrect hex digit after \\u escape in string.",
    "Invalid control character at": "Invalid encoding in string.",
}
_KINDS: dict[type, str] = {
    type(None): "Null",
    dict: "Object",
    list: "Array",
    str: "String",
    int: "Number",
    float: "Number",
}


def parse_object(body: bytes) -> dict[str, Any]:
    """Reads the object that a request's body is.

    Args:
        body: UTF-8.

    Raises:
        Failure: It is empty, not UTF-8, not JSON, nested so deep that Python gives up,
            or another thing than an object.

    Example:
    >>> parse_object(b'{"instances": [NaN]} and more')
    {'instances': [nan]}
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise invalid(
            f"JSON Parse error: Invalid encoding in string. at offset: {error.start}: "
            "the body is not UTF-8; send other bytes as {'b64': '...'}"
        ) from None
    start = len(text) - len(text.removeprefix("\ufeff").lstrip(" \t\r\n"))
    if start == len(text):
        raise invalid("JSON Parse error: The document is empty. at offset: 0")
    try:
        decoder = _CAREFUL_DECODER if _LARGE.search(text) else _DECODER
        value, _ = decoder.raw_decode(text, start)
    except JSONDecodeError as error:
        sentence = _SENTENCES.get(error.msg.removesuffix(": "), error.msg)
        offset = len(text[: error.pos].encode("utf-8", "replace"))
        raise invalid(f"JSON Parse error: {sentence} at offset: {offset}") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:  # 1e400, or thousands of digits
        message = "JSON Parse error: Number too big to be stored in double."
        raise invalid(message) from None
    if not isinstance(value, dict):
        raise invalid(f"JSON Value: {shown(value)} Is not object")
    return value


def _too_deep() -> Exception:
    return invalid(f"JSON Parse error: nested more than {DEPTH} deep")


def check_depth(level: int) -> None:
    """Refuses a value that lies `level` lists and objects deep.

    Raises:
        Failure: It lies deeper than `DEPTH`.
    """
    if level > DEPTH:
        raise _too_deep()


def kind(value: object) -> str:
    """What JSON calls a value.

    Example:
    >>> [kind(value) for value in (True, 1.5, "a", None)]
    ['True', 'Number', 'String', 'Null']
    """
    if isinstance(value, bool):
        return str(value)
    return _KINDS[type(value)]


def shown(value: object) -> str:
    r"""A value as messages quote it: as JSON, and cut where it gets long.

    Example:
    >>> shown({"a": 1})
    '{\n    "a": 1\n}'
    """
    text = ""
    try:
        for part in _ENCODER.iterencode(value):
            text += part
            if len(text) > _SHOWN:
                return f"{text[:_SHOWN]}…"
    except RecursionError:
        raise _too_deep() from None
    return text


def text_bytes(value: str) -> bytes:
    r"""The UTF-8 of a JSON string.

    Raises:
        Failure: An escape such as `\ud800` stands for half a character.
    """
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise invalid(
            "JSON Parse error: The surrogate pair in string is invalid."
        ) from None


def error_text(message: str) -> bytes:
    r"""The body of an answer that tells of an error.

    Example:
    >>> error_text("Bad key: 'a'")
    b'{\n    "error": "Bad key: \'a\'"\n}'
    """
    text = json.dumps({"error": message}, indent=4, ensure_ascii=False)
    return text.encode("utf-8", "replace")
