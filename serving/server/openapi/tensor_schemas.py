"""Types and shapes of tensors, as JSON Schema."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

Schema = dict[str, Any]
# What is known of a shape: nothing, or the sizes, None where one is free.
Shape = Sequence[int | None] | None

BASE64: Schema = {
    "description": "Bytes that are no text",
    "type": "object",
    "properties": {"b64": {"type": "string", "contentEncoding": "base64"}},
    "required": ["b64"],
    "additionalProperties": False,
}
_BASE64 = {"$ref": "#/components/schemas/Base64"}
TEXT: Schema = {"anyOf": [{"type": "string"}, _BASE64]}


def sent_value(dtype: int) -> Schema:
    """One value as clients send it.

    Args:
        dtype: `DT_…`, one that JSON has values for.
    """
    if dtype == types_pb2.DT_STRING:
        return {"$ref": "#/components/schemas/Text"}
    number = _number(dtype)
    if number["type"] == "number":
        # Larger ones are taken, too, but their products are Infinity, which is no JSON.
        most = float(tf.as_dtype(dtype).max) ** 0.5
        number |= {"minimum": -most, "maximum": most}
    return number


def told_value(name: str, dtype: int) -> Schema:
    """One value as the server tells it.

    Args:
        name: Of the output; one that ends with `_bytes` is told as base64.
        dtype: `DT_…`.
    """
    if dtype == types_pb2.DT_STRING:
        return _BASE64 if name.endswith("_bytes") else {"type": "string"}
    return _number(dtype)


def _number(dtype: int) -> Schema:
    """A number or a truth value.

    Example:
    >>> _number(types_pb2.DT_UINT8)
    {'type': 'integer', 'format': 'uint8', 'minimum': 0, 'maximum': 255}
    """
    kind: Any = np.dtype(tf.as_dtype(dtype).as_numpy_dtype)
    if kind.kind == "b":
        return {"type": "boolean"}
    if kind.kind == "f":
        # What is not finite is told and taken, too, but JSON has no word for it.
        return {"type": "number", "format": "float" if kind.itemsize == 4 else "double"}
    limits = np.iinfo(kind)
    low, high = int(limits.min), int(limits.max)
    return {"type": "integer", "format": kind.name, "minimum": low, "maximum": high}


def nested(value: Schema, shape: Shape) -> Schema:
    """Values in lists, as deep as the shape.

    Args:
        value: One of them.
        shape: Of the whole.

    Example:
    >>> nested({"type": "boolean"}, [2])
    {'type': 'array', 'items': {'type': 'boolean'}, 'minItems': 2, 'maxItems': 2}
    """
    if shape is None:
        return {"description": "A value, or lists of values however deep"}
    for size in reversed(shape):
        value = {"type": "array", "items": value}
        if size is not None:
            value |= {"minItems": size, "maxItems": size}
    return value


def named(schemas: dict[str, Schema], *, strict: bool = True) -> Schema:
    """An object that has all of these.

    Args:
        schemas: By name.
        strict: Whether it may have nothing else.
    """
    rest = {"additionalProperties": False} if strict else {}
    return {
        "type": "object",
        "properties": schemas,
        "required": list(schemas),
        **rest,
    }
