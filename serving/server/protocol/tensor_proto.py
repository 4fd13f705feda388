"""Converts `TensorProto` messages to arrays and back."""

import math
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2

from transbeam.serving.server.base.status import invalid

# Maximum number of values in a shape that exceeds the size of its message.
_LARGEST_CLAIM = 2**20
# Values written per call: other threads of Python are blocked during a call.
_AT_ONCE = 2**14
# Field of the message for each data type.
_FIELDS = {
    types_pb2.DT_FLOAT: "float_val",
    types_pb2.DT_DOUBLE: "double_val",
    types_pb2.DT_INT8: "int_val",
    types_pb2.DT_INT16: "int_val",
    types_pb2.DT_INT32: "int_val",
    types_pb2.DT_UINT8: "int_val",
    types_pb2.DT_INT64: "int64_val",
    types_pb2.DT_UINT32: "uint32_val",
    types_pb2.DT_UINT64: "uint64_val",
    types_pb2.DT_BOOL: "bool_val",
    types_pb2.DT_STRING: "string_val",
}


def to_array(name: str, proto: tensor_pb2.TensorProto) -> np.ndarray:
    """Converts a client's `TensorProto` to an array.

    Args:
        name: Name of the input, for error messages.
        proto: A tensor of any type.

    Raises:
        StatusError: The shape, the data type and the values are inconsistent.
    """
    shape = [dim.size for dim in proto.tensor_shape.dim]
    _check_claim(name, shape, proto)
    try:
        if proto.dtype != types_pb2.DT_STRING:
            return tf.make_ndarray(proto)
        values: list[Any] = list(proto.string_val)
        if len(values) == 1:
            values *= math.prod(shape)
        return np.array(values, object).reshape(shape)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise invalid(f"Input {name}: not a whole tensor: {error}") from None


def _check_claim(name: str, shape: list[int], proto: tensor_pb2.TensorProto) -> None:
    """Rejects small messages with huge shapes, which one repeated value may fill."""
    size = math.prod(shape)
    if len(proto.string_val) == 1:
        size *= max(len(proto.string_val[0]), 1)
    if min(shape, default=0) < 0 or (size > _LARGEST_CLAIM and size > proto.ByteSize()):
        raise invalid(
            f"Input {name}: the shape {shape} is claimed by a message of "
            f"{proto.ByteSize()} bytes"
        )


def to_proto(array: np.ndarray) -> tensor_pb2.TensorProto:
    """Converts an array to a `TensorProto`; see `write_proto`.

    Example:
    >>> to_proto(np.array([2.5], np.float32)).float_val
    [2.5]
    """
    proto = tensor_pb2.TensorProto()
    write_proto(array, proto)
    return proto


def write_proto(array: np.ndarray, proto: tensor_pb2.TensorProto) -> None:
    """Writes an array into a `TensorProto`, in typed fields as TF Serving does.

    Args:
        array: Array of any type.
        proto: An empty message to fill in place, such as an output of a response:
            creating a message and copying it takes twice as long.
    """
    dtype = tf.as_dtype(array.dtype).as_datatype_enum
    if array.dtype.kind in "OS":
        dtype = types_pb2.DT_STRING
    field = _FIELDS.get(dtype)
    if field is None:  # half-precision floats, stored as bits
        proto.CopyFrom(tf.make_tensor_proto(array))
        return
    proto.dtype = dtype
    proto.tensor_shape.SetInParent()  # also for scalars, whose shape has no dimensions
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    values, flat = getattr(proto, field), array.ravel()
    for start in range(0, len(flat), _AT_ONCE):
        values.extend(flat[start : start + _AT_ONCE].tolist())
