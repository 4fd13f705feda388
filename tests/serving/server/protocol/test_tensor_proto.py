"""`TensorProto`s are read whatever way a client packs them, and never on trust."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.framework import types_pb2 as t

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.protocol.tensor_proto import to_array, to_proto

FIELDS = {
    "float32": "float_val",
    "float64": "double_val",
    "int8": "int_val",
    "int16": "int_val",
    "int32": "int_val",
    "uint8": "int_val",
    "int64": "int64_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    "bool": "bool_val",
}
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


def proto(dtype, shape, **fields):
    made = tensor_pb2.TensorProto(dtype=dtype, **fields)
    for size in shape:
        made.tensor_shape.dim.add(size=size)
    return made


def texts(values, shape):
    packed = np.empty(len(values), object)
    packed[:] = values
    return packed.reshape(shape)


def refusal(given):
    with pytest.raises(StatusError, match="Input x: ") as caught:
        to_array("x", given)
    assert caught.value.http == 400
    return caught.value.message


@pytest.mark.parametrize("dtype", FIELDS)
@given(data=st.data())
def test_numbers_come_back(dtype, data):
    # tensorflow/serving: servables/tensorflow/predict_util.cc:179 AsProtoField
    values = data.draw(arrays.arrays(dtype, SHAPES))
    written = to_proto(values)
    assert [field.name for field, _ in written.ListFields() if "val" in field.name] == (
        [FIELDS[dtype]] if values.size else []
    )
    packed = tf.make_tensor_proto(values)
    for given_proto in (written, packed):
        found = to_array("x", given_proto)
        np.testing.assert_array_equal(found, values, strict=True)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_half_precision_comes_back(dtype):
    values = np.array([[1.5, -2], [0, np.inf]], dtype.as_numpy_dtype)
    written = to_proto(values)
    assert written.dtype == dtype.as_datatype_enum
    np.testing.assert_array_equal(to_array("x", written), values, strict=True)


@given(values=st.lists(st.binary(), max_size=4))
def test_strings_come_back(values):
    for shape in ((len(values),), (1, len(values), 1)):
        written = to_proto(texts(values, shape))
        assert (written.dtype, list(written.string_val)) == (t.DT_STRING, values)
        found = to_array("x", written)
        assert (found.dtype, found.shape) == (object, shape)
        assert found.ravel().tolist() == values


def test_a_string_alone():
    assert to_array("x", proto(t.DT_STRING, [], string_val=[b"a"])).item() == b"a"
    assert to_proto(np.array([b"a", b"bc"])).string_val == [b"a", b"bc"]


@pytest.mark.parametrize(
    ("given_proto", "expected"),
    [
        (proto(t.DT_FLOAT, [], float_val=[2.5]), np.float32(2.5)),
        (proto(t.DT_FLOAT, [2, 2], float_val=[2.5]), np.full((2, 2), 2.5, np.float32)),
        (proto(t.DT_INT64, [3], int64_val=[-1]), np.array([-1, -1, -1])),
        (proto(t.DT_BOOL, [2], bool_val=[True]), np.array([True, True])),
        (proto(t.DT_STRING, [2], string_val=[b"a"]), texts([b"a", b"a"], 2)),
        # The last value stands for those that are not sent.
        (proto(t.DT_INT32, [4], int_val=[1, 2]), np.array([1, 2, 2, 2], np.int32)),
        (proto(t.DT_INT32, [2]), np.zeros(2, np.int32)),
        (proto(t.DT_FLOAT, [0, 3]), np.zeros((0, 3), np.float32)),
        (proto(t.DT_STRING, [0, 3]), np.empty((0, 3), object)),
        (
            proto(t.DT_INT16, [2], tensor_content=b"\1\0\xff\xff"),
            np.array([1, -1], np.int16),
        ),
    ],
)
def test_values_that_stand_for_others(given_proto, expected):
    np.testing.assert_array_equal(to_array("x", given_proto), expected)
    assert to_array("x", given_proto).dtype == expected.dtype


def test_one_value_may_stand_for_a_million():
    found = to_array("x", proto(t.DT_FLOAT, [2**20], float_val=[2.5]))
    assert found.shape == (2**20,)
    assert (found == 2.5).all()


@pytest.mark.parametrize(
    "given_proto",
    [
        proto(t.DT_FLOAT, [1], float_val=[1, 2]),
        proto(t.DT_FLOAT, [0], float_val=[1]),
        proto(t.DT_FLOAT, [], float_val=[1, 2]),
        proto(t.DT_STRING, [3], string_val=[b"a", b"b"]),
        proto(t.DT_STRING, [], string_val=[b"a", b"b"]),
        proto(t.DT_FLOAT, [2], tensor_content=b"abc"),
        proto(t.DT_FLOAT, [2], tensor_content=b"abcdefghijkl"),
        proto(t.DT_INT8, [1], int_val=[128]),
        proto(t.DT_UINT8, [2], int_val=[1, -1]),
        proto(t.DT_HALF, [1], half_val=[2**16]),
        proto(t.DT_INVALID, [1], float_val=[1]),
        proto(999, [1], float_val=[1]),
        proto(t.DT_FLOAT_REF, [1], float_val=[1]),
        proto(t.DT_RESOURCE, [1]),
        proto(t.DT_VARIANT, [1], tensor_content=b"abcdefgh"),
        proto(t.DT_FLOAT, [1] * 65, float_val=[1]),
    ],
)
def test_parts_that_do_not_fit_together(given_proto):
    assert "not a whole tensor" in refusal(given_proto)


@pytest.mark.parametrize("shape", [[-1], [-1, 2], [2, -1], [-2, -1], [0, -1]])
@pytest.mark.parametrize(
    ("dtype", "fields"),
    [
        (t.DT_FLOAT, {"float_val": [1, 2]}),
        (t.DT_FLOAT, {"tensor_content": b"abcdefgh"}),
        (t.DT_STRING, {"string_val": [b"a", b"b"]}),
        (t.DT_STRING, {"string_val": [b"a", b"b"], "tensor_content": b"a"}),
    ],
)
def test_sizes_below_zero(dtype, fields, shape):
    refusal(proto(dtype, shape, **fields))


@pytest.mark.parametrize(
    "shape", [[2**59], [2**40], [2**62, 2**62], [2**20 + 1], [2**15, 2**15]]
)
@pytest.mark.parametrize(
    ("dtype", "fields"),
    [
        (t.DT_FLOAT, {"float_val": [1]}),
        (t.DT_FLOAT, {}),
        (t.DT_STRING, {"string_val": [b"a"]}),
    ],
)
def test_a_shape_that_one_value_cannot_fill(dtype, fields, shape):
    assert "is claimed by a message of" in refusal(proto(dtype, shape, **fields))


def test_content_does_not_let_one_string_stand_for_all():
    refusal(proto(t.DT_STRING, [2**59], string_val=[b"a"], tensor_content=b"a"))


def test_a_long_string_does_not_stand_for_a_million():
    refusal(proto(t.DT_STRING, [2**20], string_val=[b"a" * 2**20]))
