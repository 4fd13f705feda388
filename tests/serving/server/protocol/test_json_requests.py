"""Bodies of Predict requests become the arrays that TF Serving would make of them.

Cases after tensorflow/serving: util/json_tensor_test.cc, in our own words; beside them
the limits of every type, and bodies that are broken on purpose.
"""

import json

import numpy as np
import pytest
from grpc import StatusCode
from tensorflow.core.framework import types_pb2 as t

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.protocol.json_requests import InputSpec, read_predict

INT = {"x": t.DT_INT32}
FLOAT = {"x": t.DT_FLOAT}
STRING = {"x": t.DT_STRING}
TWO = {"number": t.DT_INT32, "word": t.DT_STRING}
HELLO, WORLD = {"b64": "aGVsbG8="}, {"b64": "d29ybGQ="}
BOX = [[[1, 2], [3, 4], [5, 6]]]
TOO_BIG = "Number too big to be stored in double."
DEEP = "JSON Parse error: nested more than 64 deep"


def read(body, dtypes):
    text = json.dumps(body) if isinstance(body, dict) else body
    return read_predict(text.encode(), lambda signature: InputSpec(dtypes))


def refusal(body, dtypes):
    with pytest.raises(StatusError) as caught:
        read(body, dtypes)
    return caught.value


def same(found, expected):
    np.testing.assert_array_equal(found, expected, strict=True)


def texts(values):
    return np.array(values, object)


@pytest.mark.parametrize(
    ("dtype", "rows", "expected"),
    [
        (t.DT_INT32, BOX[0], np.array([[1, 2], [3, 4], [5, 6]], np.int32)),
        (
            t.DT_FLOAT,
            [1, 2.0, 3, 4, 5.003, 0.007, 0.0],
            np.array([1, 2, 3, 4, 5.003, 0.007, 0], np.float32),
        ),
        (
            t.DT_DOUBLE,
            [1.0, 2, 3, 4, 0.662, 0, 0.0],
            np.array([1, 2, 3, 4, 0.662, 0, 0], np.float64),
        ),
        (t.DT_BOOL, [True, False], np.array([True, False])),
        (
            t.DT_STRING,
            ["é", "a\0b", "😀"],
            texts(["é".encode(), b"a\0b", "😀".encode()]),
        ),
        (t.DT_STRING, [HELLO, WORLD], texts([b"hello", b"world"])),
        (t.DT_STRING, [[HELLO], [WORLD]], texts([[b"hello"], [b"world"]])),
        (t.DT_STRING, [{"x": [[HELLO], [WORLD]]}], texts([[[b"hello"], [b"world"]]])),
        (t.DT_STRING, [{"x": "a"}, {"x": "b"}], texts([b"a", b"b"])),
        (t.DT_FLOAT, [[], []], np.zeros((2, 0), np.float32)),
        (t.DT_STRING, [[[]], [[]]], np.empty((2, 1, 0), object)),
    ],
)
def test_rows_of_one_input(dtype, rows, expected):
    # tensorflow/serving: util/json_tensor_test.cc:57 SingleUnnamedTensor
    # tensorflow/serving: util/json_tensor_test.cc:382 SingleUnnamedTensorBase64Lists
    found = read({"instances": rows}, {"x": dtype})
    assert (found.signature, found.format, list(found.inputs)) == ("", "row", ["x"])
    same(found.inputs["x"], expected)


def test_a_signature_is_asked_for_by_its_name():
    # tensorflow/serving: util/json_tensor_test.cc:298 SingleUnnamedTensorWithSignature
    asked = []
    body = b'{"signature_name": "images", "instances": [[1, 2]], "more": null}'
    found = read_predict(body, lambda name: asked.append(name) or InputSpec(INT))
    assert (found.signature, asked) == ("images", ["images"])
    same(found.inputs["x"], np.array([[1, 2]], np.int32))


def test_rows_of_several_inputs():
    # tensorflow/serving: util/json_tensor_test.cc:439 MultipleNamedTensor
    rows = """
        {"i": [[1, 2], [3, 4]], "s": ["foo", "bar"], "f": [1.0, NaN], "d": [-Infinity]},
        {"d": [2.0], "f": [2.0, Infinity], "s": ["baz", "bat"], "i": [[5, 6], [7, 8]]}
    """
    dtypes = {"i": t.DT_INT32, "s": t.DT_STRING, "f": t.DT_FLOAT, "d": t.DT_DOUBLE}
    found = read(f'{{"instances": [{rows}]}}', dtypes).inputs
    same(found["i"], np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], np.int32))
    same(found["s"], texts([[b"foo", b"bar"], [b"baz", b"bat"]]))
    same(found["f"], np.array([[1, np.nan], [2, np.inf]], np.float32))
    same(found["d"], np.array([[-np.inf], [2]], np.float64))


@pytest.mark.parametrize("inputs", [{"x": BOX}, BOX, {"x": BOX, "more": None}])
def test_columns_of_one_input(inputs):
    # tensorflow/serving: util/json_tensor_test.cc:529 SingleUnnamedTensorColumnarFormat
    found = read({"inputs": inputs}, INT)
    assert found.format == "columnar"
    same(found.inputs["x"], np.array(BOX, np.int32))


@pytest.mark.parametrize(
    ("inputs", "dtype", "expected"),
    [
        (3, t.DT_INT32, np.array(3, np.int32)),
        (HELLO, t.DT_STRING, texts(b"hello")),
        ({"x": "a"}, t.DT_STRING, texts(b"a")),
        ([], t.DT_INT64, np.zeros(0, np.int64)),
        ([[], []], t.DT_BOOL, np.zeros((2, 0), bool)),
    ],
)
def test_columns_of_scalars_and_of_nothing(inputs, dtype, expected):
    # tensorflow/serving: util/json_tensor.cc:349 GetDenseTensorShape
    same(read({"inputs": inputs}, {"x": dtype}).inputs["x"], expected)


def test_columns_may_differ_in_length():
    # tensorflow/serving: util/json_tensor_test.cc:589 MultipleNamedTensorColumnarFormat
    inputs = {"i": BOX, "s": ["foo", "bar"], "b": HELLO}
    dtypes = {"i": t.DT_INT32, "s": t.DT_STRING, "b": t.DT_STRING}
    found = read({"inputs": inputs}, dtypes).inputs
    same(found["i"], np.array(BOX, np.int32))
    same(found["s"], texts([b"foo", b"bar"]))
    same(found["b"], texts(b"hello"))


@pytest.mark.parametrize(
    "text",
    [
        '{"instances": [1]}X',
        '{"instances": [1]}{',
        '\ufeff{"instances": [1]}',
        ' \r\n\t{"instances": [1]}',
        '{"other": ' + "[" * 500 + "]" * 500 + ', "instances": [1]}',
        # tensorflow/serving: util/json_tensor_test.cc:87 DeeplyNestedWellFormed
        '{"instances": [1], "nested": ' + "[" * 500_000 + "]" * 500_000 + "}",
    ],
)
def test_what_stands_around_is_not_read(text):
    same(read(text, INT).inputs["x"], np.array([1], np.int32))


@pytest.mark.parametrize(
    "text",
    [
        '{"inputs": [1], "inputs": [2]}',
        '{"inputs": {"x": [1], "x": [2]}}',
        '{"instances": [{"x": 1, "x": 2}]}',
    ],
)
def test_of_a_key_given_twice_the_last_counts(text):
    # tensorflow/serving: util/json_tensor.cc:675 kPredictRequestInstancesKey
    same(read(text, INT).inputs["x"], np.array([2], np.int32))


ROW_ERRORS = [
    (INT, [[1, 2], [3, 4], [5, 6, 7]], "Expecting tensor size: 2 but got: 3"),
    (INT, [[1, 2], [[5, 6]]], "Expecting shape [2] but got: [1,2]"),
    (INT, [1, [1]], "Expecting shape [] but got: [1]"),
    (INT, [[], [1]], "Expecting tensor size: 0 but got: 1"),
    (INT, [[1, [2]]], "Encountered list at unexpected level: 1 expected < 1"),
    (INT, [[[1], 2]], "2 found at incorrect level: 2 in the JSON DOM."),
    (INT, [[[1], [2, 3]]], "Encountered list at unexpected size: 2 at level: 1"),
    (INT, [[1, 2], ["a", "b"]], '"a" Type: String is not of expected type: int32'),
    (INT, [None], "null Type: Null is not of expected type: int32"),
    (INT, [1.0], "1.0 Type: Number is not of expected type: int32"),
    (INT, [True], "true Type: True is not of expected type: int32"),
    (INT, [HELLO], "Type: Object is not of expected type: int32"),
    (FLOAT, [False], "false Type: False is not of expected type: float"),
    ({"x": t.DT_BOOL}, [1], "1 Type: Number is not of expected type: bool"),
    (STRING, [5], "5 Type: Number is not of expected type: string"),
    (STRING, [["a"], {"x": ["b"]}], "Expecting value/list but got object at item 1"),
    (STRING, [{"x": {"b64": 5}}], "not formatted correctly for base64 data"),
    (STRING, [{"x": {**HELLO, "a": 1}}], "not formatted correctly for base64 data"),
    (STRING, [{"b64": "*"}], "Unable to base64 decode"),
    (STRING, [{"b64": "é"}], "Unable to base64 decode"),
    (STRING, [{"b64": "a"}], "Unable to base64 decode"),
    (STRING, [{"b64": "aGVsbG8=="}], "Unable to base64 decode"),
    (STRING, ["\ud800"], "The surrogate pair in string is invalid."),
    (STRING, [{"b64": "\ud800"}], "The surrogate pair in string is invalid."),
    (INT, [{}], "keys must be equal to: x"),
    (INT, [{"\ud800": 1}], "does not have named input"),
    (TWO, [1], "instances is a plain list, but expecting list of objects"),
    (TWO, [{"number": 1}], "keys must be equal to: number,word"),
    (TWO, [{"number": 1, "word": "", "a": 1}], "does not have named input: a"),
    (TWO, [{"number": 1, "word": ""}, [1]], "Expecting object but got list at item 1"),
    (TWO, [{"number": [], "word": ""}, {"number": 1}], "size: 0 but got: 1"),
    (INT, [], "No values in 'instances' array"),
    (INT, {}, "Expecting 'instances' to be an list/array"),
    ({}, [1], "Failed to get input map for signature: DEFAULT"),
]


@pytest.mark.parametrize(
    ("dtypes", "body", "message"),
    [
        *((dtypes, {"instances": rows}, text) for dtypes, rows, text in ROW_ERRORS),
        (INT, {"signature_name": 5, "instances": [1]}, "must be a string value"),
        (INT, {"instances": [1], "inputs": [1]}, "Not formatted correctly"),
        (INT, {}, "Missing 'inputs' or 'instances' key"),
        (INT, {"inputs": None}, "Type: Null is not of expected type: int32"),
        (TWO, {"inputs": [1]}, "inputs is a plain value/list"),
        (TWO, {"inputs": {"number": 1}}, "Missing named input: word"),
        # tensorflow/serving: util/json_tensor_test.cc:104 DeeplyNestedMalformed
        (
            INT,
            f'{{"signature_name": {"[" * 500_000}{"]" * 500_000}}}',
            "key must be a string value",
        ),
        (INT, "", "JSON Parse error: The document is empty"),
        (INT, "[1]", "Is not object"),
        (INT, '"a"', "Is not object"),
    ],
)
def test_bodies_that_do_not_fit(dtypes, body, message):
    # tensorflow/serving: util/json_tensor_test.cc:642 SingleUnnamedTensorErrors
    # tensorflow/serving: util/json_tensor_test.cc:705 MultipleNamedTensorErrors
    failure = refusal(body, dtypes)
    assert failure.http == 400
    assert message in failure.message


def test_base64_is_for_the_first_of_several_inputs():
    found = read({"instances": [HELLO, WORLD]}, {"a": t.DT_STRING, "b": t.DT_STRING})
    assert list(found.inputs) == ["a"]
    same(found.inputs["a"], texts([b"hello", b"world"]))


@pytest.mark.parametrize("encoded", ["aGVsbG8", "aGVs\nbG8=\n", "aGVs bG8"])
def test_base64_with_line_breaks_and_without_padding(encoded):
    found = read({"instances": [{"b64": encoded}]}, STRING)
    same(found.inputs["x"], texts([b"hello"]))


@pytest.mark.parametrize(
    "name", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"]
)
def test_integers_at_their_limits(name):
    # tensorflow/serving: util/json_tensor.cc:317 val.IsInt64
    dtypes = {"x": t.DataType.Value(f"DT_{name.upper()}")}
    low, high = np.iinfo(name).min, np.iinfo(name).max
    found = read({"instances": [low, high]}, dtypes).inputs["x"]
    same(found, np.array([low, high], name))
    for beyond in (low - 1, high + 1):
        message = refusal({"instances": [0, beyond]}, dtypes).message
        assert message.endswith(
            f"{beyond} Type: Number is not of expected type: {name}"
        )


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        # tensorflow/serving: util/json_tensor_test.cc:183 FloatTensorWithPrecisionLoss
        (t.DT_FLOAT, "1435774380", np.float32(1435774380)),
        (t.DT_FLOAT, "1435774380.0", np.float32(1435774380)),
        (t.DT_FLOAT, "-16777217", np.float32(-16777216)),
        (t.DT_FLOAT, "18446744073709551615", np.float32(2**64)),
        (t.DT_DOUBLE, "9007199254740993", np.float64(2**53)),
        # tensorflow/serving: util/json_tensor_test.cc:224 ExceedsMaxReturnsInf
        (t.DT_FLOAT, "1.79769e+308", np.float32(np.inf)),
        (t.DT_FLOAT, "-1.79769e+308", np.float32(-np.inf)),
        (t.DT_FLOAT, "3.5e38", np.float32(np.inf)),
        (t.DT_FLOAT, "9" * 40, np.float32(np.inf)),
        # tensorflow/serving: util/json_tensor_test.cc:261 ExceedsMinReturnsZero
        (t.DT_FLOAT, "2.22507e-308", np.float32(0.0)),
        (t.DT_FLOAT, "-2.22507e-308", np.float32(-0.0)),
        # RapidJSON looks at the exponent, and not at what comes of it.
        (t.DT_FLOAT, "1.8e308", np.float32(np.inf)),
        (t.DT_DOUBLE, "1.8e308", np.float64(np.inf)),
        (t.DT_DOUBLE, "-10E+308", np.float64(-np.inf)),
        (t.DT_DOUBLE, "0.01e310", np.float64(1e308)),
        (t.DT_DOUBLE, f"1{'0' * 308}", np.float64(1e308)),
        (t.DT_FLOAT, f"1{'0' * 30}", np.float32(1e30)),
        (t.DT_FLOAT, "3.4028234e38", np.float32(3.4028234e38)),
        (t.DT_FLOAT, "-0.0", np.float32(-0.0)),
        (t.DT_FLOAT, "-Infinity", np.float32(-np.inf)),
        (t.DT_DOUBLE, "9007199254740991", np.float64(9007199254740991)),
        (t.DT_DOUBLE, "1.7976931348623157e308", np.float64(1.7976931348623157e308)),
        (t.DT_DOUBLE, "18446744073709551616", np.float64(2**64)),
    ],
)
def test_decimals_that_fit(dtype, number, expected):
    found = read(f'{{"inputs": {number}}}', {"x": dtype}).inputs["x"]
    assert (found.dtype, found.tobytes()) == (expected.dtype, expected.tobytes())


@pytest.mark.parametrize(
    "number",
    ["9" * 400, "9" * 5000, f"18{'0' * 307}", "1e309", "-1e400", "0.1e310", "1e5000"],
)
@pytest.mark.parametrize("dtype", [t.DT_FLOAT, t.DT_DOUBLE, t.DT_INT32])
def test_numbers_beyond_doubles(dtype, number):
    # tensorflow/serving: util/json_tensor.cc:488 GetParseError_En
    message = refusal(f'{{"instances": [{number}]}}', {"x": dtype}).message
    assert message == f"JSON Parse error: {TOO_BIG}"


def test_types_that_json_has_no_numbers_for():
    # tensorflow/serving: util/json_tensor.cc:337 Unimplemented
    failure = refusal({"inputs": [1.5]}, {"x": t.DT_HALF})
    assert failure.http == 501
    assert failure.message == "Conversion of JSON Value: 1.5 to type: half"
    # A row's error is one of the request, whatever its cause.
    failure = refusal({"instances": [1.5]}, {"x": t.DT_HALF})
    assert failure.http == 400
    assert "UNIMPLEMENTED: Conversion of JSON Value: 1.5" in failure.message


@pytest.mark.parametrize("levels", [65, 66, 900, 100_000])
def test_lists_that_lie_too_deep(levels):
    for key in ("instances", "inputs"):
        text = f'{{"{key}": {"[" * levels}1{"]" * levels}}}'
        failure = refusal(text, FLOAT)
        assert failure.http == 400
        assert DEEP in failure.message


@pytest.mark.parametrize("key", ["instances", "inputs"])
def test_lists_as_deep_as_arrays_go(key):
    found = read(f'{{"{key}": {"[" * 64}1{"]" * 64}}}', FLOAT)
    assert found.inputs["x"].shape == (1,) * 64


@pytest.mark.parametrize(
    ("text", "sentence", "offset"),
    [
        (" \n", "The document is empty.", 2),
        ("instances", "Invalid value.", 0),
        ('{"a": nul}', "Invalid value.", 6),
        ('{"é": nul}', "Invalid value.", 7),
        ('{"é": [1, .5]}', "Invalid value.", 11),
        ('{"instances": [Inf]}', "Invalid value.", 15),
        ('{"instances": [-Inf]}', "Invalid value.", 15),
        ("{1: 2}", "Missing a name for object member.", 1),
        ('{"é": 1, 2}', "Missing a name for object member.", 10),
        ('{"é" 1}', "Missing a colon after a name of object member.", 6),
        ('{"é": 1 "b": 2}', "Missing a comma or '}' after an object member.", 9),
        ('{"a": [1 2]}', "Missing a comma or ']' after an array element.", 9),
        ('{"a": [1}', "Missing a comma or ']' after an array element.", 8),
        ('{"a": [{"b": 1]}', "Missing a comma or '}' after an object member.", 14),
        ('{"é": "é', "Missing a closing quotation mark in string.", 7),
        ('{"é": "é\\x"}', "Invalid escape character in string.", 10),
        ('{"a": "\\u12g4"}', "Incorrect hex digit after \\u escape in string.", 8),
        ('{"a": "\n"}', "Invalid encoding in string.", 7),
        ('\n\t {"a": nul}', "Invalid value.", 9),
        ('\ufeff{"a": nul}', "Invalid value.", 9),
    ],
)
def test_what_is_not_json_is_pointed_at(text, sentence, offset):
    # tensorflow/serving: util/json_tensor.cc:484 kParseNanAndInfFlag
    # tensorflow/serving: model_servers/http_rest_api_handler_test.cc:301 Invalid
    failure = refusal(text, INT)
    assert failure.http == 400
    assert failure.message.startswith(f"JSON Parse error: {sentence}")
    assert failure.message.endswith(f" at offset: {offset}")


def test_what_is_not_utf_8_is_pointed_at():
    with pytest.raises(
        StatusError, match=r"Invalid encoding in string\. at offset: 16:"
    ):
        read_predict(b'{"instances": ["\xc3"]}', lambda _: InputSpec(STRING))


def test_a_long_value_is_cut_in_messages():
    # tensorflow/serving: util/json_tensor.cc:225 kMaxJsonDebugStringBytes
    many = {"inputs": [], "instances": ["é" * 10, {"a": [1, 2]}] * 1000}
    message = refusal(many, INT).message
    start = 'JSON Value: {\n    "inputs": [],\n    "instances": ["éééééééééé", {\n'
    assert message.startswith(f'{start}            "a": [1, 2]\n        }}, "éé')
    value = message.split(" Not formatted")[0].removeprefix("JSON Value: ")
    # What begins before the limit is written whole, but for texts.
    assert 256 <= len(value.encode()) < 256 + 30
    assert len(refusal({"inputs": "a" * 10_000}, INT).message) < 350


def test_a_deep_value_is_cut_in_messages():
    text = f'{{"signature_name": {"[" * 400}{"]" * 400}}}'
    assert "not formatted correctly" in refusal(text, INT).message


def test_rows_are_counted_before_they_are_looked_at():
    def check(rows):
        raise StatusError(StatusCode.INVALID_ARGUMENT, f"{rows} rows")

    body = b'{"instances": ["no number", 2]}'
    with pytest.raises(StatusError, match="2 rows"):
        read_predict(body, lambda signature: InputSpec(FLOAT), check)
