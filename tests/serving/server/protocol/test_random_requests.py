"""Whatever a client sends, it is read or refused: nothing else is raised."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.framework import types_pb2 as t

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.protocol.json_requests import InputSpec, read_predict
from transbeam.serving.server.protocol.rest_paths import parse
from transbeam.serving.server.protocol.tensor_proto import to_array
from transbeam.serving.server.protocol.tf_examples import (
    read_examples,
    serialized_examples,
)

SIGNATURES = [
    {"x": dtype, **more}
    for more in ({}, {"y": t.DT_STRING})
    for dtype in (t.DT_FLOAT, t.DT_DOUBLE, t.DT_INT8, t.DT_UINT64, t.DT_BOOL, t.DT_HALF)
] + [{"x": t.DT_STRING}, {}]
NAMES = st.sampled_from(
    ["instances", "inputs", "examples", "context", "signature_name", "x", "y", "b64"]
)
TEXTS = st.text(st.characters(), max_size=8)  # halves of characters among them
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXTS, inner, max_size=3)
    ),
    max_leaves=12,
)
BODIES = [
    '{"signature_name": "é", "instances": [[1, 2.5e3], [-3, NaN]]} more',
    '{"instances": [{"x": [1, 2], "y": "a\\u00e9"}, {"x": [3, 4], "y": "b"}]}',
    '{"instances": [{"b64": "aGVsbG8="}, {"b64": "d29ybGQ="}]}',
    '{"inputs": {"x": [[true], [false]], "y": {"b64": "aGVsbG8="}}}',
    '{"context": {"q": "a"}, "examples": [{"a": [1, true], "b": -Infinity}, {}]}',
]
PIECES = ["[", "]", "{", "}", '"', ",", ":", "\\ud800", "1e999", "null", "0", '{"b64":']
SIZES = st.sampled_from([-1, 0, 1, 2, 3, 2**59, 2**62])
DTYPES = st.sampled_from([t.DT_FLOAT, t.DT_INT8, t.DT_STRING]) | st.integers(0, 130)


def read_or_refused(read, *given):
    try:
        return read(*given)
    except StatusError as failure:
        refused = failure
    assert 400 <= refused.http <= 501
    assert refused.message
    return None


def read_all(body):
    for signature in SIGNATURES:
        read_or_refused(read_predict, body, lambda _, found=signature: InputSpec(found))
    found = read_or_refused(read_examples, body)
    if found is not None:
        serialized_examples(found[1])


@settings(max_examples=100)
@given(body=st.binary())
def test_bytes(body):
    read_all(body)


@settings(max_examples=100)
@given(value=VALUES)
def test_json(value):
    read_all(json.dumps(value).encode())


@settings(max_examples=150)
@given(document=st.dictionaries(NAMES, VALUES, max_size=3))
def test_json_with_the_names_of_a_request(document):
    read_all(json.dumps(document).encode())


@pytest.mark.parametrize("body", BODIES)
@given(data=st.data())
def test_bodies_that_are_broken_somewhere(body, data):
    whole = body.encode()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(whole)))
        end = data.draw(st.integers(start, min(len(whole), start + 8)))
        piece = data.draw(
            st.sampled_from(PIECES).map(str.encode) | st.binary(max_size=3)
        )
        whole = whole[:start] + piece + whole[end:]
    read_all(whole)


@given(
    method=st.sampled_from(["GET", "POST", "PUT"]),
    parts=st.lists(
        st.sampled_from(
            ["/v1/models", "/", "m", "versions", "labels", ":predict", "%", "3"]
        )
        | st.text(max_size=4)
    ),
)
def test_paths(method, parts):
    read_or_refused(parse, method, "".join(parts))


@settings(max_examples=200)
@given(data=st.data())
def test_tensors(data):
    proto = tensor_pb2.TensorProto(dtype=data.draw(DTYPES))
    for size in data.draw(st.lists(SIZES, max_size=4)):
        proto.tensor_shape.dim.add(size=size)
    proto.tensor_shape.unknown_rank = data.draw(st.booleans())
    numbers = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3)
    for field in ("float_val", "double_val", "int_val", "half_val", "scomplex_val"):
        getattr(proto, field).extend(data.draw(numbers))
    for field in ("string_val", "float8_val", "tensor_content"):
        drawn = data.draw(st.lists(st.binary(max_size=9), max_size=2))
        if field == "string_val":
            proto.string_val.extend(drawn)
        else:
            setattr(proto, field, b"".join(drawn))
    read_or_refused(to_array, "x", proto)
