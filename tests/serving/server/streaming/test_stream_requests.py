"""Requests for streams are parsed, or refused with a clear error."""

import json

import numpy as np
import pytest
import tensorflow as tf
from grpc import StatusCode
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.core.framework import types_pb2 as t
from tensorflow.core.protobuf import meta_graph_pb2

from tests.serving.server.protocol.test_random_requests import (
    VALUES,
    read_or_refused,
)
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.inference.signature import ServableSignature
from transbeam.serving.server.streaming.stream_requests import (
    BEGIN,
    JOIN,
    KEEP,
    STEP,
    begin_signature,
    can_stream,
    read_stream,
    stream_request,
)

WISHES = {
    "max_new_tokens": t.DT_INT32,
    "temperature": t.DT_FLOAT,
    "top_k": t.DT_INT32,
    "top_p": t.DT_FLOAT,
    "seed": t.DT_INT32,
}
DEFAULTS = {
    "max_new_tokens": 0,
    "temperature": 0.0,
    "top_k": 0,
    "top_p": 1.0,
    "seed": 0,
}
TYPES = {t.DT_INT32: np.int32, t.DT_FLOAT: np.float32, t.DT_STRING: object}


def signature_of(dtypes):
    definition = meta_graph_pb2.SignatureDef()
    for name, dtype in dtypes.items():
        definition.inputs[name].dtype = dtype
        definition.inputs[name].tensor_shape.dim.add(size=-1)
    return ServableSignature(BEGIN, definition)


ONE = signature_of({"text": t.DT_STRING, **WISHES})
TWO = signature_of({"text": t.DT_STRING, "second_text": t.DT_STRING, **WISHES})
FEW = signature_of({"text": t.DT_STRING, "seed": t.DT_INT32})


def read(body, signature=ONE):
    return read_stream(
        body if isinstance(body, bytes) else json.dumps(body).encode(), signature
    )


def with_defaults():
    """As exports are that say themselves what is meant by what is left out."""
    signature = signature_of({"text": t.DT_STRING, **WISHES, "logit_bias": t.DT_STRING})
    for name, value in (("max_new_tokens", -1), ("top_k", 7), ("logit_bias", "")):
        dtype = tf.as_dtype(signature.dtypes[name])
        proto = tf.make_tensor_proto([value], dtype)
        signature.definition.defaults[name].CopyFrom(proto)
    return signature


def texts(*values):
    return np.array(values, object)


def plain(request):
    return {name: values.tolist() for name, values in request.inputs.items()}


def refusal(read, *given):
    with pytest.raises(StatusError) as caught:
        read(*given)
    assert caught.value.code is StatusCode.INVALID_ARGUMENT
    return caught.value.message


def check_types(request, signature):
    assert request.inputs.keys() == signature.dtypes.keys()
    for name, dtype in signature.dtypes.items():
        assert request.inputs[name].dtype == TYPES[dtype]
        assert request.inputs[name].shape == (1,)


def test_what_is_left_out_is_as_the_model_was_judged():
    request = read({"text": "The"})
    check_types(request, ONE)
    assert plain(request) == {
        "text": [b"The"],
        **{name: [value] for name, value in DEFAULTS.items()},
    }
    assert request.stops == ()
    found = stream_request({"text": texts(b"The")}, ONE)
    check_types(found, ONE)
    assert plain(found) == plain(request)
    assert found.stops == ()


def test_what_is_left_out_is_as_the_signature_says():
    signature = with_defaults()
    rest = {"text": "a", "temperature": 1.0, "top_p": 0.5, "seed": 3}
    found = plain(read(rest, signature))
    assert found["max_new_tokens"] == [-1]
    assert found["top_k"] == [7]
    assert found["logit_bias"] == [b""]
    found = plain(read({**rest, "max_new_tokens": 0}, signature))
    assert found["max_new_tokens"] == [0]
    assert "Missing but required: {temperature}" in refusal(
        read, {"text": "a", "top_p": 0.5, "seed": 3}, signature
    )


def test_an_object_of_biases_is_one_text():
    signature = with_defaults()
    rest = {"text": "a", "temperature": 1.0, "top_p": 0.5, "seed": 3}
    found = read({**rest, "logit_bias": {"3": -100, "11": 2.5}}, signature)
    assert plain(found)["logit_bias"] == [b"3:-100,11:2.5"]
    said = refusal(read, {**rest, "logit_bias": {"3": "a"}}, signature)
    assert "logit_bias: expected an object such as" in said


def test_only_what_the_model_takes_is_added():
    request = read({"text": "", "seed": 3}, FEW)
    check_types(request, FEW)
    assert plain(request) == {"text": [b""], "seed": [3]}


def test_all_that_can_be_wished():
    wishes = {
        "text": "é\n",
        "second_text": {"b64": "/w=="},
        "max_new_tokens": 7,
        "temperature": 1,  # an int stands for a float
        "top_k": 2,
        "top_p": 0.5,
        "seed": -1,
    }
    request = read({**wishes, "stop": [".", "é"]}, TWO)
    check_types(request, TWO)
    assert plain(request) == {
        "text": ["é\n".encode()],
        "second_text": [b"\xff"],
        "max_new_tokens": [7],
        "temperature": [1.0],
        "top_k": [2],
        "top_p": [0.5],
        "seed": [-1],
    }
    assert request.stops == (b".", "é".encode())
    bare = {name: values.reshape([]) for name, values in request.inputs.items()}
    found = stream_request({**bare, "stop": texts(b".", b"x")}, TWO)
    check_types(found, TWO)
    assert plain(found) == plain(request)
    assert found.stops == (b".", b"x")


@pytest.mark.parametrize(
    ("stop", "stops"),
    [
        ("", (b"",)),
        ("\n\n", (b"\n\n",)),
        ([], ()),
        (["a", "", "b\x1f"], (b"a", b"", b"b\x1f")),
    ],
)
def test_strings_that_end_a_text(stop, stops):
    assert read({"text": "a", "stop": stop}).stops == stops
    column = np.array([one.encode() for one in np.atleast_1d(stop)], object)
    assert stream_request({"text": texts(b"a"), "stop": column}, ONE).stops == stops


def test_one_string_in_an_array_without_dimensions():
    stop = np.array(b"ab", object)
    assert stream_request({"text": texts(b"a"), "stop": stop}, ONE).stops == (b"ab",)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "JSON Parse error: The document is empty"),
        (b"text=a", "JSON Parse error: Invalid value. at offset: 0"),
        (b'["text"]', "Is not object"),
        (b'{"text": "\xff"}', "the body is not UTF-8"),
        (rb'{"text": "\ud800"}', "text: JSON Parse error: The surrogate pair"),
        (rb'{"text": "a", "stop": "\udc00"}', "The surrogate pair in string is inv"),
        ({}, "Missing but required: {text}."),
        ({"seed": 1}, "Missing but required: {text}."),
        ({"text": None}, "text: JSON Value: null Type: Null is not of expected type"),
        ({"text": 5}, "text: JSON Value: 5 Type: Number is not of expected type: str"),
        ({"text": ["a"]}, "Input text has the shape [1, 1]; expected [?]"),
        ({"text": ["a", "b"]}, "Input text has the shape [1, 2]; expected [?]"),
        ({"text": []}, "Input text has the shape [1, 0]; expected [?]"),
        ({"text": "a", "max_new_tokens": 5.0}, "max_new_tokens: JSON Value: 5.0"),
        ({"text": "a", "max_new_tokens": "5"}, "max_new_tokens: JSON Value: "),
        ({"text": "a", "max_new_tokens": True}, "max_new_tokens: JSON Value: true"),
        ({"text": "a", "seed": 2**31}, "seed: JSON Value: 2147483648"),
        ({"text": "a", "temperature": "warm"}, 'temperature: JSON Value: "warm"'),
        ({"text": "a", "texts": "b"}, "there is no input 'texts'; expected some of "),
        ({"instances": ["a"]}, "there is no input 'instances'; expected some of max_"),
        ({"text": "a", "stop": 1}, "stop: expected a text, or a list of texts"),
        ({"text": "a", "stop": None}, "stop: expected a text, or a list of texts"),
        ({"text": "a", "stop": ["a", 1]}, "stop: expected a text, or a list of texts"),
        ({"text": "a", "stop": {"b64": "YQ=="}}, "stop: expected a text, or a list"),
        (b'{"text": ' + b"[" * 500 + b"]" * 500 + b"}", "nested more than 64 deep"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_json_that_cannot_be_meant(body, message):
    assert message in refusal(read, body)


def test_who_asks_for_what_there_is_not_is_told_what_there_is():
    found = refusal(read, {"text": "a", "n": 2}, FEW)
    assert found == "there is no input 'n'; expected some of seed, text, stop"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Missing but required: {text}."),
        ({"text": texts(b"a"), "n": texts(b"a")}, "there is no input 'n'; expected "),
        ({"text": texts(b"a", b"b")}, "text: expected one value, found 2"),
        ({"text": texts()}, "text: expected one value, found 0"),
        ({"text": texts([b"a"])}, "Input text has the shape [1, 1]; expected [?]"),
        ({"text": np.array([1.0])}, "Input text: Expects arg["),
        (
            {"text": texts(b"a"), "seed": np.array([1])},
            "Input seed: Expects arg[",
        ),
        (
            {"text": texts(b"a"), "seed": np.array([1, 2], np.int32)},
            "seed: expected one value, found 2",
        ),
        ({"text": texts(b"a"), "stop": np.array([1.0])}, "stop: expected texts"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_arrays_that_cannot_be_meant(given, message):
    assert message in refusal(stream_request, given, ONE)


@given(
    document=st.dictionaries(
        st.sampled_from([*ONE.dtypes, "stop", "x"]), VALUES, max_size=4
    )
)
def test_any_json_is_read_or_refused(document):
    body = json.dumps(document).encode()
    request = read_or_refused(read_stream, body, ONE)
    if request is not None:
        check_types(request, ONE)
        assert all(isinstance(stop, bytes) for stop in request.stops)


@pytest.mark.parametrize("missing", [BEGIN, STEP, JOIN, KEEP])
def test_a_model_that_cannot_be_streamed(missing):
    signatures = {name: ONE for name in (BEGIN, STEP, JOIN, KEEP, "generate")}
    assert can_stream(signatures)
    assert begin_signature(signatures) is ONE
    del signatures[missing]
    assert not can_stream(signatures)
    with pytest.raises(StatusError, match="cannot be streamed") as caught:
        begin_signature(signatures)
    assert caught.value.code is StatusCode.FAILED_PRECONDITION
