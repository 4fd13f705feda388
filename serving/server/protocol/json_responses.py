"""Writes response bodies in JSON, with TF Serving's number format and layout.

A floating-point number is written with at most six significant digits if they parse
back to the same value, otherwise with at most nine (seventeen for doubles). Whole
floating-point numbers end in `.0`, so that a list of them cannot be mistaken for
integers.
"""

import base64
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import classification_pb2, regression_pb2

from transbeam.serving.server.base.status import invalid
from transbeam.serving.server.protocol.json_requests import Format

Outputs = Mapping[str, np.ndarray]

_INDENT = "    "
# Number of values formatted at once, and of characters joined into one piece. Outputs
# may have hundreds of thousands of values; other threads run between two pieces.
_AT_ONCE, _PIECE = 1024, 2**15


def is_writable(dtype: int) -> bool:
    """Returns True if JSON can represent values of the data type.

    Example:
    >>> is_writable(types_pb2.DT_FLOAT), is_writable(types_pb2.DT_HALF)
    (True, False)
    """
    kind = np.dtype(tf.as_dtype(dtype).as_numpy_dtype)
    number = kind.kind in "biu" or (kind.kind == "f" and kind.itemsize >= 4)
    return number or dtype == types_pb2.DT_STRING


def predict_pieces(outputs: Outputs, format: Format) -> list[bytes]:
    r"""Formats the response to a Predict request, in the format of the request.

    The response is returned in chunks that are sent one after another: joining
    megabytes of text in a single call would block all other threads.

    Args:
        outputs: Arrays by output name, in the order in which they are written.
        format: `row` for an entry per row with all outputs, `columnar` for an entry
            per output.

    Raises:
        StatusError: There is no output, an output has a type without a JSON
            representation, or the outputs differ in their number of rows.

    Example:
    >>> predict_pieces({"y": np.array([2.5, 3.0], np.float32)}, "row")
    [b'{\n    "predictions": [2.5, 3.0\n    ]\n}']
    """
    if not outputs:
        raise invalid("Cannot convert empty tensor map to JSON")
    return _pieces(_rows(outputs) if format == "row" else _columns(outputs))


def result_pieces(
    result: classification_pb2.ClassificationResult | regression_pb2.RegressionResult,
) -> list[bytes]:
    """Formats the response to a Classify or Regress request.

    The response has labels and scores, or a number, for each example.

    Raises:
        StatusError: The result is empty.
    """
    if isinstance(result, regression_pb2.RegressionResult):
        rows = _decimals(np.array([r.value for r in result.regressions], np.float32))
    else:
        rows = list(map(_classes, result.classifications))
    if not rows:
        raise invalid(f"Cannot convert empty {type(result).__name__}s to JSON")
    return _pieces(_results(rows))


def _pieces(parts: Iterable[str]) -> list[bytes]:
    pieces: list[bytes] = []
    waiting: list[str] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= _PIECE:
            pieces.append("".join(waiting).encode())
            waiting, size = [], 0
            time.sleep(0)
    return [*pieces, "".join(waiting).encode()]


def _classes(classification: classification_pb2.Classifications) -> str:
    classes = classification.classes
    scores = _decimals(np.array([one.score for one in classes], np.float32))
    pairs = (
        f"[{_quoted(one.label)}, {score}]"
        for one, score in zip(classes, scores, strict=True)
    )
    return f"[{', '.join(pairs)}]"


def _results(rows: Iterable[str]) -> Iterator[str]:
    yield f'{{\n{_INDENT}"results": ['
    for number, text in enumerate(rows):
        yield f", {text}" if number else text
    yield f"\n{_INDENT}]\n}}"


def _rows(outputs: Outputs) -> Iterator[str]:
    count = _count(outputs)
    yield f'{{\n{_INDENT}"predictions": ['
    if len(outputs) == 1:
        [(name, values)] = outputs.items()
        yield from _items(_texts(name, values, 1), values.shape)
    else:
        yield from _objects(outputs, count)
    yield f"\n{_INDENT}]\n}}" if count else "]\n}"


def _objects(outputs: Outputs, count: int) -> Iterator[str]:
    """Yields the text of rows as objects with a member for each output."""
    columns = [
        (
            f"{',' if number else ''}\n{_INDENT * 3}{_quoted(name)}: ",
            _texts(name, values, len(outputs)),
            values.shape[1:],
        )
        for number, (name, values) in enumerate(outputs.items())
    ]
    for row in range(count):
        yield f"{',' if row else ''}\n{_INDENT * 2}{{"
        for name, texts, shape in columns:
            yield name
            yield from _flat(texts, shape)
        yield f"\n{_INDENT * 2}}}"


def _columns(outputs: Outputs) -> Iterator[str]:
    yield f'{{\n{_INDENT}"outputs": '
    if len(outputs) == 1:
        [(name, values)] = outputs.items()
        yield from _lines(_texts(name, values, 1), values.shape, 1)
    else:
        for number, (name, values) in enumerate(outputs.items()):
            texts = _texts(name, values, len(outputs))
            yield f"{',' if number else '{'}\n{_INDENT * 2}{_quoted(name)}: "
            yield from _lines(texts, values.shape, 2)
        yield f"\n{_INDENT}}}"
    yield "\n}"


def _count(outputs: Outputs) -> int:
    count = None
    for name, values in outputs.items():
        if values.ndim == 0:
            raise invalid(f"Tensor name: {name} has no shape information ")
        if count is not None and len(values) != count:
            raise invalid(
                f"Tensor name: {name} has inconsistent batch size: {len(values)} "
                f"expecting: {count}"
            )
        count = len(values)
    return count or 0


def _texts(name: str, values: np.ndarray, outputs: int) -> Iterator[str]:
    """Yields the text of each value in C order, formatted lazily in chunks."""
    # Nesting depth of a value; with several outputs they are members of an object.
    depth = 1 + (outputs > 1) + values.ndim
    flat = values.ravel()
    write = _writer(name, values.dtype, depth)
    starts = range(0, len(flat), _AT_ONCE)
    return chain.from_iterable(write(flat[at : at + _AT_ONCE]) for at in starts)


def _flat(texts: Iterator[str], shape: tuple[int, ...]) -> Iterator[str]:
    """Yields a value or nested lists on one line."""
    if not shape:
        yield next(texts)
        return
    yield "["
    yield from _items(texts, shape)
    yield "]"


def _items(texts: Iterator[str], shape: tuple[int, ...]) -> Iterator[str]:
    """Yields the elements of a list on one line, without the enclosing brackets."""
    if len(shape) == 1:
        for start in range(0, shape[0], _AT_ONCE):
            some = islice(texts, min(_AT_ONCE, shape[0] - start))
            yield f"{', ' if start else ''}{', '.join(some)}"
        return
    for number in range(shape[0]):
        yield ", [" if number else "["
        yield from _items(texts, shape[1:])
        yield "]"


def _lines(texts: Iterator[str], shape: tuple[int, ...], depth: int) -> Iterator[str]:
    """Yields nested lists with one value per line, as RapidJSON's PrettyWriter does."""
    if not shape:
        yield next(texts)
        return
    if not shape[0]:
        yield "[]"
        return
    line = f"\n{_INDENT * (depth + 1)}"
    if len(shape) == 1:
        for start in range(0, shape[0], _AT_ONCE):
            some = islice(texts, min(_AT_ONCE, shape[0] - start))
            yield f"{',' if start else '['}{line}{f',{line}'.join(some)}"
    else:
        for number in range(shape[0]):
            yield f"{',' if number else '['}{line}"
            yield from _lines(texts, shape[1:], depth + 1)
    yield f"\n{_INDENT * depth}]"


def _writer(
    name: str, dtype: np.dtype, depth: int
) -> Callable[[np.ndarray], list[str]]:
    """Returns a function that formats values of a data type."""
    match dtype.kind:
        case "f" if dtype.itemsize >= 4:
            return _decimals
        case "i" | "u":
            return lambda values: list(map(str, values.tolist()))
        case "b":
            return lambda values: [
                "true" if one else "false" for one in values.tolist()
            ]
        case "O" | "S" if name.endswith("_bytes"):
            return lambda values: [_base64(one, depth) for one in values.tolist()]
        case "O" | "S":
            # Bytes that are not UTF-8 are not valid JSON.
            return lambda values: [
                _quoted(one.decode("utf-8", "replace")) for one in values.tolist()
            ]
        case _:
            raise invalid(f"Failed to write JSON value for tensor type: {dtype.name}")


def _decimals(values: np.ndarray) -> list[str]:
    numbers = values.tolist()
    texts = [f"{number:.6g}" for number in numbers]
    again = np.array(list(map(float, texts)), np.float64).astype(values.dtype)
    digits = 9 if values.dtype == np.float32 else 17
    for index in np.flatnonzero(again != values).tolist():
        texts[index] = f"{numbers[index]:.{digits}g}"
    return [_decimal(text) for text in texts]


def _decimal(text: str) -> str:
    if "." in text or "e" in text:
        return text
    if text.lstrip("-").isdecimal():
        return f"{text}.0"
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[text]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _base64(value: bytes, depth: int) -> str:
    text = base64.b64encode(value).decode()
    return f'{{\n{_INDENT * (depth + 1)}"b64": "{text}"\n{_INDENT * depth}}}'
