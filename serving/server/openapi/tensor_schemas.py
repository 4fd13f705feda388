"""JSON schemas of tensor dtypes and shapes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

Schema = dict[str, Any]
# Tensor shape: None if the rank is unknown, else the sizes, None where unknown.
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


def request_value(dtype: int) -> Schema:
    """Returns the schema of a value in requests.

    Args:
        dtype: `DT_…`, a type that JSON can represent.
    """
    if dtype == types_pb2.DT_STRING:
        return {"$ref": "#/components/schemas/Text"}
    number = _number(dtype)
    if number["type"] == "number":
        # Larger numbers are accepted, but a product of two of them may be Infinity,
        # which is not valid JSON.
        most = float(tf.as_dtype(dtype).max) ** 0.5
        number |= {"minimum": -most, "maximum": most}
    return number


def response_value(name: str, dtype: int) -> Schema:
    """Returns the schema of a value in responses.

    Args:
        name: Name of the output; strings named `…_bytes` are encoded as base64.
        dtype: `DT_…`.
    """
    if dtype == types_pb2.DT_STRING:
        return _BASE64 if name.endswith("_bytes") else {"type": "string"}
    return _number(dtype)


def _number(dtype: int) -> Schema:
    """Returns the schema of a number or a Boolean.

    Example:
    >>> _number(types_pb2.DT_UINT8)
    {'type': 'integer', 'format': 'uint8', 'minimum': 0, 'maximum': 255}
    """
    kind: Any = np.dtype(tf.as_dtype(dtype).as_numpy_dtype)
    if kind.kind == "b":
        return {"type": "boolean"}
    if kind.kind == "f":
        # NaN and infinities are also accepted and returned, but are not valid JSON.
        return {"type": "number", "format": "float" if kind.itemsize == 4 else "double"}
    limits = np.iinfo(kind)
    low, high = int(limits.min), int(limits.max)
    return {"type": "integer", "format": kind.name, "minimum": low, "maximum": high}


def nested(value: Schema, shape: Shape) -> Schema:
    """Returns the schema of nested lists of a given shape.

    Args:
        value: Schema of one value.
        shape: Shape of the tensor.

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


def object_schema(schemas: dict[str, Schema], *, strict: bool = True) -> Schema:
    """Returns the schema of an object with required members.

    Args:
        schemas: Schemas of the members by name.
        strict: True to forbid additional members.
    """
    rest = {"additionalProperties": False} if strict else {}
    return {
        "type": "object",
        "properties": schemas,
        "required": list(schemas),
        **rest,
    }
