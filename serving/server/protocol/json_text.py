"""Reads and writes JSON as TF Serving does.

TF Serving uses RapidJSON, accepts NaN and infinities, and ignores any text after the
first value. Error messages are those of RapidJSON, because clients may compare them.
"""

import json
import re
from collections.abc import Iterator
from json import JSONDecodeError
from typing import Any

from transbeam.serving.server.base.status import invalid
from transbeam.serving.server.protocol.json_nesting import prune_deep

# Maximum nesting depth of a request: more than any tensor has.
DEPTH = 64
_PARSED = 256  # levels that are parsed; below the recursion limit of Python's parser
_SHOWN = 256  # bytes of a value that are quoted in an error message
_LARGEST_EXPONENT = 308  # decimal exponent of a double


def _decimal(text: str) -> float:
    """Parses a float; rejects it if its exponent is out of RapidJSON's range."""
    number, _, exponent = text.lower().partition("e")
    decimals = len(number.partition(".")[2])
    if exponent and int(exponent) > _LARGEST_EXPONENT + decimals:
        raise ValueError(text)
    return float(text)


def _whole(text: str) -> int:
    number = int(text)
    float(number)  # raises OverflowError beyond the range of a double
    return number


_DECODER = json.JSONDecoder()
# Python parses 1e400 as infinity. Checking each number doubles the parsing time, so it
# is done only if the text may have a number of that size. Patterns that begin with a
# digit are found six times as fast.
_LARGE = re.compile(r"[0-9](?:[eE]\+?0*[0-9]{3}|[0-9]{299})")
_CAREFUL_DECODER = json.JSONDecoder(parse_float=_decimal, parse_int=_whole)
_MISSING_COMMA = "Expecting ',' delimiter"
_SENTENCES = {
    "Expecting value": "Invalid value.",
    "Expecting property name enclosed in double quotes": (
        "Missing a name for object member."
    ),
    "Illegal trailing comma before end of object": "Missing a name for object member.",
    "Illegal trailing comma before end of array": "Invalid value.",
    "Expecting ':' delimiter": "Missing a colon after a name of object member.",
    "Unterminated string starting at": "Missing a closing quotation mark in string.",
    "Invalid \\escape": "Invalid escape character in string.",
    "Invalid \\uXXXX escape": "Incorrect hex digit after \\u escape in string.",
    "Invalid control character at": "Invalid encoding in string.",
}
_INDENT = "    "
_KINDS: dict[type, str] = {
    type(None): "Null",
    dict: "Object",
    list: "Array",
    str: "String",
    int: "Number",
    float: "Number",
}


def parse_object(body: bytes) -> dict[str, Any]:
    """Parses a request body that must be a JSON object.

    Args:
        body: JSON text in UTF-8.

    Raises:
        StatusError: The body is empty, not UTF-8, not JSON, or not an object.

    Example:
    >>> parse_object(b'{"instances": [NaN]} and more')
    {'instances': [nan]}
    """
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise invalid(
            f"JSON Parse error: Invalid encoding in string. at offset: {error.start}: "
            "the body is not UTF-8; send other bytes as {'b64': '...'}"
        ) from None
    start = len(text) - len(text.removeprefix("\ufeff").lstrip(" \t\r\n"))
    if start == len(text):
        raise invalid(
            f"JSON Parse error: The document is empty. at offset: {len(body)}"
        )
    try:
        value = _parsed(text, start)
    except RecursionError:
        shallow = prune_deep(body, _PARSED)
        if shallow is None:
            raise _too_deep() from None
        value = _parsed(shallow.decode(), start)
    if not isinstance(value, dict):
        raise invalid(f"JSON Value: {shown(value)} Is not object")
    return value


def _parsed(text: str, start: int) -> Any:
    decoder = _CAREFUL_DECODER if _LARGE.search(text) else _DECODER
    try:
        return decoder.raw_decode(text, start)[0]
    except JSONDecodeError as error:
        offset = len(text[: error.pos].encode("utf-8", "replace"))
        raise invalid(
            f"JSON Parse error: {_sentence(error, start)} at offset: {offset}"
        ) from None
    except (ValueError, OverflowError):  # 1e400, or an integer of thousands of digits
        raise invalid(
            "JSON Parse error: Number too big to be stored in double."
        ) from None


def _sentence(error: JSONDecodeError, start: int) -> str:
    """Converts an error of Python's parser to RapidJSON's message."""
    if error.msg != _MISSING_COMMA:
        return _SENTENCES.get(error.msg.removesuffix(": "), error.msg)
    try:
        # If the text up to here and a `]` is valid so far, the error is in a list.
        _DECODER.raw_decode(f"{error.doc[: error.pos]}]", start)
    except JSONDecodeError as other:
        if other.pos == error.pos:
            return "Missing a comma or '}' after an object member."
    return "Missing a comma or ']' after an array element."


def _too_deep() -> Exception:
    return invalid(f"JSON Parse error: nested more than {DEPTH} deep")


def check_depth(level: int) -> None:
    """Rejects a value that is nested too deeply.

    Raises:
        StatusError: `level` exceeds `DEPTH`.
    """
    if level > DEPTH:
        raise _too_deep()


def kind(value: object) -> str:
    """Returns RapidJSON's name for the type of a value.

    Example:
    >>> [kind(value) for value in (True, 1.5, "a", None)]
    ['True', 'Number', 'String', 'Null']
    """
    if isinstance(value, bool):
        return str(value)
    return _KINDS[type(value)]


def shown(value: object) -> str:
    r"""Formats a value as JSON for an error message, truncated if it is long.

    Example:
    >>> shown({"a": [1, 2]})
    '{\n    "a": [1, 2]\n}'
    """
    text = ""
    for part in _elements(value, 0):
        if len(text.encode("utf-8", "replace")) >= _SHOWN:
            break
        text += part
    return text


def _elements(value: object, level: int) -> Iterator[str]:
    """Yields the brackets, keys and values of JSON text with their separators.

    The generator is recursive but lazy: if its consumer stops after some bytes, the
    remaining values are not visited.
    """
    if isinstance(value, dict):
        yield "{"
        for number, (key, inner) in enumerate(value.items()):
            comma = "," if number else ""
            yield f"{comma}\n{_INDENT * (level + 1)}{_quoted(key)}: "
            yield from _elements(inner, level + 1)
        yield f"\n{_INDENT * level}}}" if value else "}"
    elif isinstance(value, list):
        yield "["
        for number, inner in enumerate(value):
            comma = ", " if number else ""
            for part in _elements(inner, level + 1):
                yield f"{comma}{part}"
                comma = ""
        yield "]"
    else:
        yield _quoted(value)


def _quoted(value: object) -> str:
    short = value[:_SHOWN] if isinstance(value, str) else value
    return json.dumps(short, ensure_ascii=False)


def text_bytes(value: str) -> bytes:
    r"""Encodes a JSON string as UTF-8.

    Raises:
        StatusError: The string contains an unpaired surrogate, such as `\ud800`.
    """
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise invalid(
            "JSON Parse error: The surrogate pair in string is invalid."
        ) from None


def error_text(message: str) -> bytes:
    r"""Formats the response body for an error.

    Example:
    >>> error_text("Bad key: 'a'")
    b'{\n    "error": "Bad key: \'a\'"\n}'
    """
    text = json.dumps({"error": message}, indent=4, ensure_ascii=False)
    return text.encode("utf-8", "replace")
