"""Lists of strings that end a text, and the one string that a signature takes."""

import json

import numpy as np
import pytest
from tensorflow.core.framework import types_pb2 as t

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.protocol.generation_inputs import (
    json_of_list,
    json_of_object,
    rows_of_lists,
    split_stop_strings,
)
from transbeam.serving.server.protocol.json_requests import InputSpec, read_predict

DTYPES = {"text": t.DT_STRING, "max_new_tokens": t.DT_INT32, "stop": t.DT_STRING}
FORMS = {"stop": json_of_list, "logit_bias": json_of_object}
WRITES = InputSpec(DTYPES, {"max_new_tokens": -1, "stop": ""}, FORMS)


def read(taken=WRITES, **document):
    found = read_predict(json.dumps(document).encode(), lambda _: taken).inputs
    return {name: values.tolist() for name, values in found.items()}


@pytest.mark.parametrize(
    ("stop", "told"),
    [
        (".", b"."),
        ([], b""),
        (["."], b"."),
        ([".", "\n", "é"], b".\x1f\n\x1f\xc3\xa9"),
        (["a", {"b64": "/w=="}], b"a\x1f\xff"),
        ("a\x1fb", b"a\x1fb"),
        ({"b64": "YR9i"}, b"a\x1fb"),
    ],
)
def test_a_list_in_a_row_or_in_a_column(stop, told):
    rows = read(instances=[{"text": "a", "stop": stop}, {"text": "b", "stop": "x"}])
    assert rows == {"text": [b"a", b"b"], "stop": [told, b"x"]}
    assert read(inputs={"text": ["a", "b"], "stop": [stop, "x"]}) == rows


@pytest.mark.parametrize(
    ("stop", "message"),
    [
        ([1], "stop: expected a text, or a list of texts"),
        ([["a"]], "stop: expected a text, or a list of texts"),
        (["a", None], "stop: expected a text, or a list of texts"),
        (["a\x1fb"], "a string of a list cannot have U+001F in it"),
        ([{"b64": "YR9i"}], "a string of a list cannot have U+001F in it"),
        (7, "JSON Value: 7 Type: Number is not of expected type: string"),
    ],
)
def test_lists_that_cannot_be_meant(stop, message):
    for document in (
        {"instances": [{"text": "a", "stop": stop}]},
        {"inputs": {"text": ["a"], "stop": [stop]}},
    ):
        with pytest.raises(StatusError) as caught:
            read(**document)
        assert message in caught.value.message


BIASES = InputSpec({"text": t.DT_STRING, "logit_bias": t.DT_STRING}, {}, FORMS)


@pytest.mark.parametrize(
    ("bias", "told"),
    [
        ({"3": -100, "11": 2.5}, b"3:-100,11:2.5"),
        ({}, b""),
        ("3:1", b"3:1"),
        ({"b64": "MzoxMA=="}, b"3:10"),
    ],
)
def test_an_object_of_biases(bias, told):
    found = read(BIASES, instances=[{"text": "a", "logit_bias": bias}])
    assert found["logit_bias"] == [told]
    found = read(BIASES, inputs={"text": ["a"], "logit_bias": [bias]})
    assert found["logit_bias"] == [told]


@pytest.mark.parametrize(
    "bias", [{"a": 1}, {"3": "1"}, {"3": True}, {"-3": 1}, {"3": None}, {"3": [1]}]
)
def test_biases_that_cannot_be_meant(bias):
    with pytest.raises(StatusError, match="logit_bias: expected an object such as"):
        read(BIASES, instances=[{"text": "a", "logit_bias": bias}])


def test_what_rows_leave_out():
    assert read(instances=[{"text": "a"}]) == {"text": [b"a"]}
    found = read(instances=[{"text": "a"}, {"text": "b", "max_new_tokens": 3}])
    assert found == {"text": [b"a", b"b"], "max_new_tokens": [-1, 3]}
    assert read(inputs={"text": ["a"]}) == {"text": [b"a"]}
    with pytest.raises(
        StatusError, match="keys must be equal to: max_new_tokens,stop,tex"
    ):
        read(instances=[{"stop": "."}])
    with pytest.raises(StatusError, match="Missing named input: text"):
        read(inputs={"stop": ["."]})
    with pytest.raises(StatusError, match="does not have named input: top"):
        read(instances=[{"text": "a", "top": 1}])


def test_a_stop_of_other_models_is_an_input_like_any_other():
    taken = InputSpec({"stop": t.DT_STRING})
    assert read(taken, instances=[["a", "b"]]) == {"stop": [[b"a", b"b"]]}


def test_rows_of_strings_from_grpc():
    rows = np.array([[b".", b"!"], [b"", b""]], object)
    assert rows_of_lists(rows).tolist() == [b".\x1f!", b"\x1f"]
    assert split_stop_strings(b".\x1f!") == [b".", b"!"]
    assert split_stop_strings(b"\x1f") == []
    with pytest.raises(StatusError, match=r"U\+001F"):
        rows_of_lists(np.array([[b"a\x1fb"]], object))
