"""Bodies of Classify and Regress requests become the `tf.Example`s of signatures.

Cases after tensorflow/serving: util/json_tensor_test.cc, in our own words.
"""

import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.example import example_pb2
from tensorflow_serving.apis import input_pb2

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.protocol.tf_examples import (
    read_examples,
    serialized_examples,
)

LARGEST = "1.7976931348623157e308"


def features(example):
    found = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        found[name] = (kind, list(getattr(feature, kind).value) if kind else [])
    return found


def read(body):
    text = body if isinstance(body, str) else json.dumps(body)
    return read_examples(text.encode())


def read_feature(text):
    _, found = read(f'{{"examples": [{{"f": {text}}}]}}')
    return features(found.example_list.examples[0])["f"]


def example(**values):
    made = example_pb2.Example()
    for name, value in values.items():
        made.features.feature[name].float_list.value.append(value)
    return made


def test_examples_without_a_context():
    # tensorflow/serving: util/json_tensor_test.cc:1242 RequestNoContext
    rows = [
        {"names": ["foo", "bar"], "ratings": [8.0, 9.0], "age": 20},
        {"names": ["baz"], "ratings": 6.0},
        {},
    ]
    signature, found = read({"examples": rows})
    assert signature == ""
    assert found.WhichOneof("kind") == "example_list"
    assert [features(one) for one in found.example_list.examples] == [
        {
            "names": ("bytes_list", [b"foo", b"bar"]),
            "ratings": ("float_list", [8.0, 9.0]),
            "age": ("int64_list", [20]),
        },
        {"names": ("bytes_list", [b"baz"]), "ratings": ("float_list", [6.0])},
        {},
    ]


def test_examples_with_a_context_and_a_signature():
    # tensorflow/serving: util/json_tensor_test.cc:1312 RequestWithContextAndSignature
    body = {
        "signature_name": "mine",
        "context": {"query": "pizza", "location": ["sfo"]},
        "examples": [
            {"ratings": [8.0, float("inf"), float("-inf")], "age": 20},
            {"names": ["baz", {"b64": "aGVsbG8="}], "mix": [1, True, False]},
        ],
    }
    signature, found = read(body)
    assert signature == "mine"
    assert found.WhichOneof("kind") == "example_list_with_context"
    listed = found.example_list_with_context
    assert features(listed.context) == {
        "query": ("bytes_list", [b"pizza"]),
        "location": ("bytes_list", [b"sfo"]),
    }
    assert [features(one) for one in listed.examples] == [
        {
            "ratings": ("float_list", [8.0, np.inf, -np.inf]),
            "age": ("int64_list", [20]),
        },
        {
            "names": ("bytes_list", [b"baz", b"hello"]),
            "mix": ("int64_list", [1, 1, 0]),
        },
    ]


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("true", "int64_list", [1]),
        ("[false, -9223372036854775808]", "int64_list", [0, -(2**63)]),
        ("9223372036854775807", "int64_list", [2**63 - 1]),
        ("[1.0, -0.5]", "float_list", [1.0, -0.5]),
        ("3.4028234e38", "float_list", [np.float32(3.4028234e38)]),
        ("NaN", "float_list", [np.nan]),
        ('"\\u0000é"', "bytes_list", ["\0é".encode()]),
        ('{"b64": ""}', "bytes_list", [b""]),
        ('{"b64": "aGVsbG8"}', "bytes_list", [b"hello"]),
        (LARGEST, "float_list", [np.inf]),
        ("-3.5e38", "float_list", [-np.inf]),
        # Beyond 64 bits JSON's integers are read as decimals.
        ("100000000000000000000", "float_list", [np.float32(1e20)]),
        ("-9223372036854775809", "float_list", [np.float32(-(2.0**63))]),
        ("[]", None, []),
    ],
)
def test_the_kind_of_a_feature(text, kind, values):
    found = read_feature(text)
    assert found[0] == kind
    np.testing.assert_array_equal(found[1], values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[10, null]", "Feature: f has element with unexpected JSON type: Null"),
        ('[10, {"test": 10}]', "f has element with unexpected JSON type: Object"),
        ('{"b64": "YQ==", "a": 1}', "f has element with unexpected JSON type: Object"),
        ('{"b64": 5}', "f has element with unexpected JSON type: Object"),
        ("[[10], 20]", "f has element with unexpected JSON type: Array"),
        ("[10, 10.0]", "type in feature: f expecting type: int64"),
        ("[10.0, true]", "type in feature: f expecting type: float"),
        ('["a", 1]', "type in feature: f expecting type: bytes"),
        ('[1, {"b64": "YQ=="}]', "type in feature: f expecting type: int64"),
        (
            "[20, 18446744073709551603]",
            "f has uint64_t element. Only int64_t is supported",
        ),
        ("1e400", "Number too big to be stored"),
        ('{"b64": "*"}', "Unable to base64 decode"),
        ('"\\ud800"', "The surrogate pair in string is invalid"),
        ("[" * 100_000, "JSON Parse error: nested more than 64 deep"),
        ("", "JSON Parse error: Invalid value. at offset: 20"),
    ],
)
def test_features_that_cannot_be_read(text, message):
    # tensorflow/serving: util/json_tensor_test.cc:1445 JsonErrors
    with pytest.raises(StatusError) as caught:
        read_feature(text)
    assert caught.value.http == 400
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "document is empty"),
        ({"signature_name": ["a"], "examples": [{}]}, "key must be a string value"),
        ({"context": [{}], "examples": [{}]}, "JSON object but got JSON Array"),
        ({"context": {}}, "key 'examples' is expected and was not found"),
        ({}, "key 'examples' is expected and was not found"),
        ({"examples": {"names": ["foo"]}}, "to be an list/array"),
        ({"examples": None}, "to be an list/array"),
        ({"examples": []}, "'examples' value is an empty array"),
        ({"examples": [[{}]]}, "Example must be JSON object but got JSON Array"),
        ({"examples": [{}, 1]}, "Example must be JSON object but got JSON Number"),
        ({"examples": [{"\ud800": 1}]}, "The surrogate pair in string is invalid"),
    ],
)
def test_bodies_that_cannot_be_read(body, message):
    with pytest.raises(StatusError) as caught:
        read(body)
    assert caught.value.http == 400
    assert message in caught.value.message


def test_examples_go_to_a_signature_as_they_are():
    found = input_pb2.Input()
    found.example_list.examples.extend([example(x=1), example()])
    rows = serialized_examples(found)
    assert (rows.dtype, rows.shape) == (object, (2,))
    assert rows.tolist() == [example(x=1).SerializeToString(), b""]


def test_an_example_s_own_feature_counts_more_than_the_context_s():
    # tensorflow/serving: classifier_test.cc:454 ExampleListWithContext_DuplicateFeature
    found = input_pb2.Input()
    found.example_list_with_context.context.CopyFrom(example(x=1, y=2))
    found.example_list_with_context.examples.extend([example(x=3), example()])
    rows = serialized_examples(found)
    context = found.example_list_with_context.context.SerializeToString()
    assert rows.tolist() == [context + example(x=3).SerializeToString(), context]
    parsed = [example_pb2.Example.FromString(row) for row in rows]
    assert parsed == [example(x=3, y=2), example(x=1, y=2)]
    spec = {name: tf.io.FixedLenFeature((), tf.float32) for name in "xy"}
    columns = tf.io.parse_example(rows.tolist(), spec)
    assert columns["x"].numpy().tolist() == [3, 1]
    assert columns["y"].numpy().tolist() == [2, 2]


@pytest.mark.parametrize("kind", [None, "example_list", "example_list_with_context"])
def test_no_example_at_all(kind):
    found = input_pb2.Input()
    if kind:
        getattr(found, kind).SetInParent()
    if kind == "example_list_with_context":
        found.example_list_with_context.context.CopyFrom(example(x=1))
    with pytest.raises(StatusError, match=r"Input is empty\.") as caught:
        serialized_examples(found)
    assert caught.value.http == 400


def test_a_large_context_for_many_examples_is_not_copied():
    found = input_pb2.Input()
    found.example_list_with_context.context.features.feature["x"].bytes_list.value[
        :
    ] = [b"a" * 2**20]
    for _ in range(300):
        found.example_list_with_context.examples.add()
    with pytest.raises(StatusError, match="for 300 examples: each gets it"):
        serialized_examples(found)
