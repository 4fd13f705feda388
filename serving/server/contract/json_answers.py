"""Arrays to the body of an answer over REST, with TF Serving's numbers and layout.

Numbers are written as short as they can be read back exactly: six digits if these are
enough, else nine (seventeen for doubles), and `.0` behind whole ones, so that a list of
decimals never looks like one of integers.
"""

import base64
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import classification_pb2, regression_pb2

from serving.server.contract.json_requests import Format
from serving.server.failures import invalid

Outputs = Mapping[str, np.ndarray]

_INDENT = "    "
# Values that are written before other threads get a turn: a long text has hundreds of
# thousands of words, and whoever waits meanwhile would wait again at each step.
_AT_ONCE = 1024


def is_writable(dtype: int) -> bool:
    """Whether JSON has values for a type.

    Example:
    >>> is_writable(types_pb2.DT_FLOAT), is_writable(types_pb2.DT_HALF)
    (True, False)
    """
    kind = np.dtype(tf.as_dtype(dtype).as_numpy_dtype)
    number = kind.kind in "biu" or (kind.kind == "f" and kind.itemsize >= 4)
    return number or dtype == types_pb2.DT_STRING


def predict_text(outputs: Outputs, format: Format) -> bytes:
    r"""The answer to a Predict request, in the format of the question.

    Args:
        outputs: An array for each output, in the order they are written in.
        format: `row`: an entry for each row of all outputs. `columnar`: one for each
            output.

    Raises:
        Failure: There is no output, one of a type that JSON has no numbers for, or the
            rows are not as many in each.

    Example:
    >>> predict_text({"y": np.array([2.5, 3.0], np.float32)}, "row").decode()
    '{\n    "predictions": [2.5, 3.0\n    ]\n}'
    """
    if not outputs:
        raise invalid("Cannot convert empty tensor map to JSON")
    if format == "row":
        return _rows(outputs).encode()
    if len(outputs) == 1:
        [(name, values)] = outputs.items()
        text = _indented(_nested(name, values, 1), 1)
    else:
        nested = {name: _nested(name, of, len(outputs)) for name, of in outputs.items()}
        parts = [
            f"{_INDENT * 2}{_quoted(name)}: {_indented(values, 2)}"
            for name, values in nested.items()
        ]
        text = "{\n" + ",\n".join(parts) + f"\n{_INDENT}}}"
    return f'{{\n{_INDENT}"outputs": {text}\n}}'.encode()


def classification_text(result: classification_pb2.ClassificationResult) -> bytes:
    """The answer to a Classify request: labels and scores.

    Raises:
        Failure: It has none.
    """
    if not result.classifications:
        raise invalid("Cannot convert empty ClassificationResults to JSON")
    rows = []
    for classification in result.classifications:
        classes = classification.classes
        scores = _decimals(np.array([one.score for one in classes], np.float32))
        pairs = zip(classes, scores, strict=True)
        rows.append(_list(f"[{_quoted(one.label)}, {score}]" for one, score in pairs))
    return _results(rows)


def regression_text(result: regression_pb2.RegressionResult) -> bytes:
    """The answer to a Regress request: a number for each example.

    Raises:
        Failure: It has none.
    """
    if not result.regressions:
        raise invalid("Cannot convert empty RegressionResults to JSON")
    values = np.array([one.value for one in result.regressions], np.float32)
    return _results(_decimals(values))


def _results(rows: Sequence[str]) -> bytes:
    return f'{{\n{_INDENT}"results": [{", ".join(rows)}\n{_INDENT}]\n}}'.encode()


def _rows(outputs: Outputs) -> str:
    count = _count(outputs)
    columns = {
        name: [_flat(part) for part in _nested(name, values, len(outputs))]
        for name, values in outputs.items()
    }
    if len(columns) == 1:
        [texts] = columns.values()
        return (
            f'{{\n{_INDENT}"predictions": [{", ".join(texts)}\n{_INDENT}]\n}}'
            if count
            else f'{{\n{_INDENT}"predictions": []\n}}'
        )
    quoted = {name: _quoted(name) for name in columns}
    objects = []
    for row in range(count):
        members = ",\n".join(
            f"{_INDENT * 3}{quoted[name]}: {texts[row]}"
            for name, texts in columns.items()
        )
        objects.append(f"\n{_INDENT * 2}{{\n{members}\n{_INDENT * 2}}}")
    end = f"\n{_INDENT}" if objects else ""
    return f'{{\n{_INDENT}"predictions": [{",".join(objects)}{end}]\n}}'


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


def _nested(name: str, values: np.ndarray, outputs: int) -> Any:
    """The values as texts, in lists as deep as the array."""
    # Of the objects and lists around a value: one more if outputs have names.
    depth = 1 + (outputs > 1) + values.ndim
    flat = values.ravel()
    texts: list[str] = []
    for start in range(0, max(1, len(flat)), _AT_ONCE):
        if start:
            time.sleep(0)
        texts += _texts(name, flat[start : start + _AT_ONCE], depth)
    return _in_lists(texts, values.shape)


def _in_lists(texts: list[str], shape: tuple[int, ...]) -> Any:
    if not shape:
        return texts[0]
    if len(shape) == 1:
        return texts
    size = len(texts) // max(1, shape[0])
    parts = (texts[row * size : (row + 1) * size] for row in range(shape[0]))
    return [_in_lists(part, shape[1:]) for part in parts]


def _texts(name: str, values: np.ndarray, depth: int) -> list[str]:
    match values.dtype.kind:
        case "f" if values.dtype.itemsize >= 4:
            return _decimals(values)
        case "i" | "u":
            return list(map(str, values.tolist()))
        case "b":
            return ["true" if value else "false" for value in values.tolist()]
        case "O" | "S":
            if name.endswith("_bytes"):
                return [_base64(value, depth) for value in values.tolist()]
            return [_quoted_bytes(value) for value in values.tolist()]
        case _:
            raise invalid(
                f"Failed to write JSON value for tensor type: {values.dtype.name}"
            )


def _decimals(values: np.ndarray) -> list[str]:
    numbers = values.tolist()
    texts = [f"{number:.6g}" for number in numbers]
    again = np.array(list(map(float, texts)), np.float64).astype(values.dtype)
    digits = 9 if values.dtype == np.float32 else 17
    for place in np.flatnonzero(again != values).tolist():
        texts[place] = f"{numbers[place]:.{digits}g}"
    return [_decimal(text) for text in texts]


def _decimal(text: str) -> str:
    if "." in text or "e" in text:
        return text
    if text.lstrip("-").isdecimal():
        return f"{text}.0"
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[text]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _quoted_bytes(value: bytes) -> str:
    # What is not UTF-8 would not be JSON.
    return _quoted(value.decode("utf-8", "replace"))


def _base64(value: bytes, depth: int) -> str:
    text = base64.b64encode(value).decode()
    return f'{{\n{_INDENT * (depth + 1)}"b64": "{text}"\n{_INDENT * depth}}}'


def _list(texts: Iterable[str]) -> str:
    texts = list(texts)
    starts = range(0, len(texts), _AT_ONCE)
    parts = [", ".join(texts[start : start + _AT_ONCE]) for start in starts]
    return f"[{', '.join(parts)}]"


def _flat(value: Any) -> str:
    """In one line."""
    return value if isinstance(value, str) else _list([_flat(part) for part in value])


def _indented(value: Any, depth: int) -> str:
    """One value a line, as RapidJSON writes lists unless told otherwise."""
    if isinstance(value, str):
        return value
    if not value:
        return "[]"
    inner = f"\n{_INDENT * (depth + 1)}"
    texts = (_indented(part, depth + 1) for part in value)
    return f"[{inner}{f',{inner}'.join(texts)}\n{_INDENT * depth}]"
