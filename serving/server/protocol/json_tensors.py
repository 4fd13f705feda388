"""Converts JSON values to arrays, by TF Serving's rules.

https://www.tensorflow.org/tfx/serving/api_rest#json_mapping
"""

import base64
import binascii
from typing import Any

import numpy as np
from grpc import StatusCode
from tensorflow.core.framework import types_pb2

from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.protocol.json_text import (
    check_depth,
    kind,
    shown,
    text_bytes,
)

_FLOATS = {types_pb2.DT_FLOAT: np.float32, types_pb2.DT_DOUBLE: np.float64}
_INTEGERS = {
    types_pb2.DT_INT8: np.int8,
    types_pb2.DT_INT16: np.int16,
    types_pb2.DT_INT32: np.int32,
    types_pb2.DT_INT64: np.int64,
    types_pb2.DT_UINT8: np.uint8,
    types_pb2.DT_UINT32: np.uint32,
    types_pb2.DT_UINT64: np.uint64,
}
# Types of JSON values that a data type takes. Floats may round large ones to infinity.
_TYPES: dict[int, frozenset[type]] = {
    types_pb2.DT_BOOL: frozenset({bool}),
    **dict.fromkeys(_INTEGERS, frozenset({int})),
    **dict.fromkeys(_FLOATS, frozenset({int, float})),
}


def is_base64(value: object) -> bool:
    """Returns True if the value is an object `{"b64": "..."}` without other members."""
    return (
        isinstance(value, dict)
        and len(value) == 1
        and isinstance(value.get("b64"), str)
    )


def decode_base64(value: object) -> bytes:
    """Decodes the bytes of a `{"b64": "..."}` object.

    Raises:
        StatusError: The value is not a `{"b64": "..."}` object, or its string is not
            base64.
    """
    if not (isinstance(value, dict) and is_base64(value)):
        raise invalid(
            f"JSON Value: {shown(value)} not formatted correctly for base64 data"
        )
    encoded = b"".join(text_bytes(value["b64"]).split())
    try:
        # The base64 padding is optional.
        return base64.b64decode(encoded + b"=" * (-len(encoded) % 4), validate=True)
    except binascii.Error:
        raise invalid("Unable to base64 decode") from None


def to_array(value: object, dtype: int) -> np.ndarray:
    """Converts a value or nested lists of values to an array.

    Args:
        value: Parsed JSON.
        dtype: `DT_…`; strings become bytes.

    Raises:
        StatusError: Lists at the same level differ in length, or a value has the wrong
            type or is out of range.

    Example:
    >>> to_array([[1, 2], [3, 4]], types_pb2.DT_INT32).tolist()
    [[1, 2], [3, 4]]
    """
    shape = _shape(value)
    return _packed(_leaves(value, shape, dtype), dtype).reshape(shape)


def is_readable(dtype: int) -> bool:
    """Returns True if JSON can represent values of the data type."""
    return dtype in _TYPES or dtype == types_pb2.DT_STRING


def to_json(values: np.ndarray) -> Any:
    """Converts an array to the JSON that a client would send.

    Example:
    >>> to_json(np.array([b"a", bytes([255])], object))
    ['a', {'b64': '/w=='}]
    """
    return _written(values.tolist())


def _written(value: Any) -> Any:
    if isinstance(value, list):
        return [_written(part) for part in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    return value


class Column:
    """Collects the values of an input, one per instance, all of the same shape.

    Args:
        dtype: `DT_…`.
    """

    def __init__(self, dtype: int):
        self._dtype = dtype
        self._leaves: list[Any] = []
        self._shape: tuple[int, ...] | None = None
        self._count = 0

    def add(self, value: object) -> None:
        """Appends the value of the next instance.

        Raises:
            StatusError: The value is invalid (see `to_array`), or its shape differs
                from that of earlier values.
        """
        shape = _shape(value)
        check_depth(len(shape) + 1)
        leaves = _leaves(value, shape, self._dtype)
        if self._shape is None:
            self._shape = shape
        if shape != self._shape:
            size = int(np.prod(self._shape))
            if len(leaves) != size:
                raise invalid(f"Expecting tensor size: {size} but got: {len(leaves)}")
            raise invalid(f"Expecting shape {dims(self._shape)} but got: {dims(shape)}")
        self._leaves += leaves
        self._count += 1

    def array(self) -> np.ndarray:
        """Returns all values, (instances, ...)."""
        shape = (self._count, *(self._shape or ()))
        return _packed(self._leaves, self._dtype).reshape(shape)


def dims(shape: tuple[int, ...]) -> str:
    """Formats a shape for error messages.

    Example:
    >>> dims((3, 2))
    '[3,2]'
    """
    return f"[{','.join(map(str, shape))}]"


def _shape(value: object) -> tuple[int, ...]:
    """Returns the shape of nested lists, read from their first elements."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        check_depth(len(shape))
        if not value:
            break
        value = value[0]
    return tuple(shape)


def _leaves(value: object, shape: tuple[int, ...], dtype: int) -> list[Any]:
    """Flattens nested lists and converts the values to the data type.

    Raises:
        StatusError: The lists do not have the given shape, or a value has the wrong
            type.
    """
    found = [value]
    for level, size in enumerate(shape):
        inner = []
        for part in found:
            if not isinstance(part, list):
                raise invalid(
                    f"JSON Value: {shown(part)} found at incorrect level: {level + 1} "
                    f"in the JSON DOM. Expected at level: {len(shape)}"
                )
            if len(part) != size:
                raise invalid(
                    f"Encountered list at unexpected size: {len(part)} at level: "
                    f"{level} expected size: {size}"
                )
            inner += part
        found = inner
    return _checked(found, dtype, len(shape))


def _checked(leaves: list[Any], dtype: int, rank: int) -> list[Any]:
    # In Python `True` is an int; a set of the types is built at C speed.
    found = set(map(type, leaves))
    if list in found:
        raise invalid(f"Encountered list at unexpected level: {rank} expected < {rank}")
    if dtype == types_pb2.DT_STRING:
        return [_bytes(leaf) for leaf in leaves]
    if dtype not in _TYPES:
        raise StatusError(
            StatusCode.UNIMPLEMENTED,
            f"Conversion of JSON Value: {shown(leaves[0]) if leaves else '[]'} to "
            f"type: {type_name(dtype)}",
        )
    limits = np.iinfo(_INTEGERS[dtype]) if dtype in _INTEGERS else None
    valid = found <= _TYPES[dtype] and (
        limits is None
        or not leaves
        or (limits.min <= min(leaves) and max(leaves) <= limits.max)
    )
    if not valid:
        for leaf in leaves:
            if type(leaf) not in _TYPES[dtype] or (
                limits is not None and not limits.min <= leaf <= limits.max
            ):
                raise _type_error(leaf, dtype)
    return leaves


def _bytes(leaf: object) -> bytes:
    if isinstance(leaf, str):
        return text_bytes(leaf)
    if isinstance(leaf, dict):
        return decode_base64(leaf)
    raise _type_error(leaf, types_pb2.DT_STRING)


def _type_error(leaf: object, dtype: int) -> StatusError:
    return invalid(
        f"JSON Value: {shown(leaf)} Type: {kind(leaf)} is not of expected type: "
        f"{type_name(dtype)}"
    )


def type_name(dtype: int) -> str:
    """Formats a data type for error messages.

    Example:
    >>> type_name(types_pb2.DT_FLOAT)
    'float'
    """
    return types_pb2.DataType.Name(dtype).removeprefix("DT_").lower()  # type: ignore[arg-type]


def _packed(leaves: list[Any], dtype: int) -> np.ndarray:
    if dtype == types_pb2.DT_STRING:
        return np.array(leaves, object)
    if dtype == types_pb2.DT_BOOL:
        return np.array(leaves, bool)
    if dtype in _FLOATS:
        # Converted by way of doubles, like all numbers in RapidJSON.
        with np.errstate(over="ignore"):
            return np.array(leaves, np.float64).astype(_FLOATS[dtype])
    return np.array(leaves, _INTEGERS[dtype])
