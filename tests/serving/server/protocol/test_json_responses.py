"""Answers to Predict, Classify and Regress, byte for byte as TF Serving writes them.

Cases after tensorflow/serving: util/json_tensor_test.cc, in our own words; beside them
numbers that need every digit, and that whatever is written can be read back.
"""

import base64
import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tensorflow_serving.apis import classification_pb2, regression_pb2

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.protocol import json_responses as module
from transbeam.serving.server.protocol.json_responses import (
    predict_pieces,
    result_pieces,
)
from transbeam.serving.server.protocol.json_text import error_text

BOX = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], np.int32)
BRAIN = tf.bfloat16.as_numpy_dtype
SHAPES = arrays.array_shapes(max_dims=3, max_side=4)

COLUMN = """\
{
    "outputs": [
        [
            1,
            2
        ],
        [
            3,
            4
        ]
    ]
}"""
SEVERAL = {
    "double": np.array([8.0, 9.0]),
    "float": np.array([[1.0], [2.0]], np.float32),
    "text": np.array([[b"foo", b"bar"], [b"baz", b"bat"]], object),
    "yes": np.array([True, False]),
}
ROWS = """\
{
    "predictions": [
        {
            "double": 8.0,
            "float": [1.0],
            "text": ["foo", "bar"],
            "yes": true
        },
        {
            "double": 9.0,
            "float": [2.0],
            "text": ["baz", "bat"],
            "yes": false
        }
    ]
}"""
COLUMNS = """\
{
    "outputs": {
        "double": [
            8.0,
            9.0
        ],
        "yes": [
            true,
            false
        ]
    }
}"""
BYTES_ROWS = """\
{
    "predictions": [[{
                "b64": "aGVsbG8="
            }, {
                "b64": "d29ybGQ="
            }]
    ]
}"""
BYTES_COLUMN = """\
{
    "outputs": [
        [
            {
                "b64": "aGVsbG8="
            },
            {
                "b64": "d29ybGQ="
            }
        ]
    ]
}"""


def predictions(text):
    return f'{{\n    "predictions": [{text}\n    ]\n}}'


def results(text):
    return f'{{\n    "results": [{text}\n    ]\n}}'


def predict_text(outputs, format):
    return b"".join(predict_pieces(outputs, format))


def refusal(write, *given):
    with pytest.raises(StatusError) as caught:
        write(*given)
    assert caught.value.http == 400
    return caught.value.message


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (BOX, predictions("[[1, 2], [3, 4]], [[5, 6], [7, 8]]")),
        (np.array([1, 2, 3], np.int32), predictions("1, 2, 3")),
        (np.array([b"a", b'"\n'], object), predictions('"a", "\\"\\n"')),
        (np.array([b"a", b"b"]), predictions('"a", "b"')),
        (np.zeros((2, 0), np.float32), predictions("[], []")),
        (np.zeros((0, 2), np.int32), '{\n    "predictions": []\n}'),
    ],
)
def test_rows_of_one_output(values, text):
    # tensorflow/serving: util/json_tensor_test.cc:832 FromJsonSingleTensor
    # tensorflow/serving: util/json_tensor_test.cc:1153 FromJsonSingleZeroBatchTensor
    assert predict_text({"y": values}, "row").decode() == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (BOX[0], COLUMN),
        (np.array(3, np.int32), '{\n    "outputs": 3\n}'),
        (np.array(b"a", object), '{\n    "outputs": "a"\n}'),
        (np.zeros((0, 2)), '{\n    "outputs": []\n}'),
    ],
)
def test_one_output_as_a_column(values, text):
    # tensorflow/serving: util/json_tensor_test.cc:871 FromJsonSingleScalarTensor
    assert predict_text({"y": values}, "columnar").decode() == text


def test_several_outputs():
    # tensorflow/serving: util/json_tensor_test.cc:1011 FromJsonMultipleNamedTensors
    assert predict_text(SEVERAL, "row").decode() == ROWS
    both = {name: SEVERAL[name] for name in ("double", "yes")}
    assert predict_text(both, "columnar").decode() == COLUMNS
    column = json.loads(predict_text(SEVERAL, "columnar"))["outputs"]
    assert column["text"] == [["foo", "bar"], ["baz", "bat"]]
    assert column["float"] == [[1.0], [2.0]]


def test_several_outputs_without_rows():
    # tensorflow/serving: util/json_tensor_test.cc:1170 FromJsonMultipleZeroBatchTensors
    none = {"text": np.empty((0, 1, 2), object), "float": np.zeros((0, 3, 4))}
    assert predict_text(none, "row") == b'{\n    "predictions": []\n}'
    column = json.loads(predict_text(none, "columnar"))["outputs"]
    assert column == {"text": [], "float": []}


def test_outputs_named_bytes_are_base64():
    # tensorflow/serving: util/json_tensor_test.cc:897 FromJsonSingleBytesTensor
    values = np.array([[b"hello", b"world"]], object)
    assert predict_text({"y_bytes": values}, "row").decode() == BYTES_ROWS
    assert predict_text({"y_bytes": values}, "columnar").decode() == BYTES_COLUMN


@pytest.mark.parametrize("name", ["y_bytes_", "y_BYTES", "bytes"])
def test_outputs_of_other_names_are_text(name):
    values = np.array([b"hello"], object)
    assert predict_text({name: values}, "row").decode() == predictions('"hello"')


@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        ("float32", 9000000, "9e+06"),
        ("float32", 999999, "999999.0"),
        ("float32", 0.5, "0.5"),
        ("float32", 0.0003, "0.0003"),
        ("float32", 0.00003, "3e-05"),
        ("float32", 555557.5, "555557.5"),
        ("float32", 3, "3.0"),
        ("float32", 0.1 + 0.2, "0.3"),
        ("float32", 1 / 3, "0.333333343"),
        ("float32", 1234567, "1234567.0"),
        ("float32", 16777215, "16777215.0"),
        ("float32", 123456792, "123456792.0"),
        ("float32", 1e-45, "1.4013e-45"),
        ("float32", 3.4028234663852886e38, "3.40282347e+38"),
        ("float32", 0.0, "0.0"),
        ("float32", -0.0, "-0.0"),
        ("float32", np.nan, "NaN"),
        ("float32", -np.nan, "NaN"),
        ("float32", np.inf, "Infinity"),
        ("float64", -np.inf, "-Infinity"),
        ("float64", -0.0, "-0.0"),
        ("float64", 0.1, "0.1"),
        ("float64", 0.1 + 0.2, "0.30000000000000004"),
        ("float64", 1 / 3, "0.33333333333333331"),
        ("float64", 16777217, "16777217.0"),
        ("float64", 9007199254740993, "9007199254740992.0"),
        ("float64", 5e-324, "4.94066e-324"),
        ("float64", 1.7976931348623157e308, "1.7976931348623157e+308"),
        ("int8", -128, "-128"),
        ("int16", -32768, "-32768"),
        ("int32", 2**31 - 1, "2147483647"),
        ("int64", -(2**63), "-9223372036854775808"),
        ("uint8", 255, "255"),
        ("uint32", 2**32 - 1, "4294967295"),
        ("uint64", 2**64 - 1, "18446744073709551615"),
        ("bool", True, "true"),
        ("bool", False, "false"),
    ],
)
def test_the_text_of_a_number(dtype, value, text):
    # tensorflow/serving: json_tensor_test.cc:924 FromJsonSingleFloatTensorSixDigitPreci
    # tensorflow/serving: json_tensor_test.cc:951 FromJsonSingleFloatTensorNonFinite
    found = predict_text({"y": np.array([value], dtype)}, "row").decode()
    assert found == predictions(text)


@pytest.mark.parametrize(
    ("outputs", "format", "message"),
    [
        ({}, "row", "Cannot convert empty tensor map to JSON"),
        ({}, "columnar", "Cannot convert empty tensor map to JSON"),
        ({"y": np.zeros(2, np.complex64)}, "row", "tensor type: complex64"),
        ({"y": np.zeros(2, np.complex64)}, "columnar", "tensor type: complex64"),
        ({"y": np.zeros(2, np.float16)}, "row", "tensor type: float16"),
        ({"y": np.zeros(2, BRAIN)}, "columnar", "tensor type: bfloat16"),
        ({"y": np.array(1, np.int32)}, "row", "name: y has no shape information"),
        (
            {"a": np.zeros((2, 3)), "b": np.zeros((1, 3))},
            "row",
            "Tensor name: b has inconsistent batch size: 1 expecting: 2",
        ),
        (
            {"a": np.zeros((0, 2)), "b": np.zeros((1, 2))},
            "row",
            "Tensor name: b has inconsistent batch size: 1 expecting: 0",
        ),
    ],
)
def test_outputs_that_cannot_be_written(outputs, format, message):
    # tensorflow/serving: util/json_tensor_test.cc:976 FromJsonSingleTensorErrors
    # tensorflow/serving: json_tensor_test.cc:1117 FromJsonMultipleNamedTensorsErrors
    assert message in refusal(predict_pieces, outputs, format)


def test_classes_and_scores():
    # tensorflow/serving: util/json_tensor_test.cc:1534 JsonFromClassificationResult
    result = classification_pb2.ClassificationResult()
    for scores in ([0.2, 0.7, np.inf], [], [np.nan, 1, 0]):
        classes = result.classifications.add().classes
        for label, score in zip(("car", 'b"k', ""), scores, strict=False):
            classes.add(label=label, score=score)
    text = (
        '[["car", 0.2], ["b\\"k", 0.7], ["", Infinity]], [], '
        '[["car", NaN], ["b\\"k", 1.0], ["", 0.0]]'
    )
    assert b"".join(result_pieces(result)).decode() == results(text)


def test_regressed_values():
    # tensorflow/serving: json_tensor_test.cc:1573 JsonFromRegressionResultWithNonFinite
    values = (0.2, np.inf, 1.0, -np.inf, np.nan)
    listed = [regression_pb2.Regression(value=value) for value in values]
    result = regression_pb2.RegressionResult(regressions=listed)
    text = results("0.2, Infinity, 1.0, -Infinity, NaN")
    assert b"".join(result_pieces(result)).decode() == text


def test_results_of_nothing():
    # tensorflow/serving: util/json_tensor_test.cc:1590 JsonFromResultErrors
    nothing = classification_pb2.ClassificationResult()
    assert "empty ClassificationResults" in refusal(result_pieces, nothing)
    nothing = regression_pb2.RegressionResult()
    assert "empty RegressionResults" in refusal(result_pieces, nothing)


@pytest.mark.parametrize("message", ['Bad key: "key"', "Bad key: 'key'", "\ud800é"])
def test_errors(message):
    # tensorflow/serving: util/json_tensor_test.cc:1607 StatusError
    found = json.loads(error_text(message))
    assert found == {"error": message.replace("\ud800", "?")}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(data=st.data())
def test_decimals_are_read_back_as_they_were(dtype, data):
    values = data.draw(arrays.arrays(dtype, SHAPES))
    for format, key in (("row", "predictions"), ("columnar", "outputs")):
        found = json.loads(predict_text({"y": values}, format))[key]
        again = np.array(found, np.float64).astype(dtype)
        np.testing.assert_array_equal(again, values, strict=True)
        numbers = ~np.isnan(values)
        same = np.signbit(again) == np.signbit(values)
        assert same[numbers].all()


@given(words=st.lists(st.text(), min_size=1))
def test_texts_are_read_back_as_they_were(words):
    values = np.array([word.encode() for word in words], object)
    assert json.loads(predict_text({"y": values}, "row"))["predictions"] == words


@given(values=st.lists(st.binary(), min_size=1))
def test_bytes_that_are_no_text(values):
    outputs = {name: np.array(values, object) for name in ("y", "y_bytes")}
    found = json.loads(predict_text(outputs, "columnar"))["outputs"]
    assert found["y"] == [value.decode("utf-8", "replace") for value in values]
    assert [base64.b64decode(one["b64"]) for one in found["y_bytes"]] == values


def test_what_is_written_in_turns_is_the_same(monkeypatch):
    chance = np.random.default_rng(0)
    outputs = {
        "deep": chance.random((3, 2, 4)).astype(np.float32),
        "empty": np.zeros((3, 0, 2), np.int32),
        "words": np.array([[b"a", "é".encode()]] * 3, object),
    }
    formats = ("row", "columnar")
    whole = [predict_text(outputs, format) for format in formats]
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    monkeypatch.setattr(module, "_PIECE", 10)
    assert [predict_text(outputs, format) for format in formats] == whole
    parsed = json.loads(whole[0])["predictions"]
    assert [row["empty"] for row in parsed] == [[], [], []]
    np.testing.assert_allclose([row["deep"] for row in parsed], outputs["deep"], 1e-6)


@pytest.mark.parametrize("format", ["row", "columnar"])
def test_no_piece_is_large(format):
    # To join, encode or copy 2 MB is one step of Python's: all other threads wait.
    words = np.array([[b"a word"] * 100_000], object)
    pieces = predict_pieces({"a": words, "b": words.T.reshape(1, -1, 1)}, format)
    assert sum(map(len, pieces)) > 2e6
    assert max(map(len, pieces)) < 1e5
