"""Requests at a limit, and one beyond."""

import numpy as np
import pytest
from grpc import StatusCode
from tensorflow.core.example import example_pb2

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.configuration.limits import Limits
from transbeam.serving.server.request_handling.request_limits import (
    check_amounts,
    check_examples,
    check_stops,
)

LIMITS = Limits(text_bytes=6, rows=3)


def texts(*values):
    return np.array([value.encode() for value in values], object)


def example(name, text):
    made = example_pb2.Example()
    made.features.feature[name].bytes_list.value.append(text.encode())
    return made.SerializeToString()


@pytest.mark.parametrize(
    "inputs",
    [
        {"text": texts("abc", "déf"[:2])},
        {"text": texts("abc"), "second_text": texts("def")},
        {"words": texts("ab", "cd", "ef").reshape(1, 3)},
        {"image_bytes": texts("a" * 100)},
        {"token_ids": np.zeros((3, 100), np.int32)},
        {"scale": np.array(1.0), "text": texts("")},
        {},
    ],
)
def test_as_much_as_is_read(inputs):
    check_amounts(inputs, LIMITS)


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({"text": texts("abc", "dé", "f")}, "text_bytes"),
        ({"text": texts("abc"), "second_text": texts("defg")}, "text_bytes"),
        ({"words": texts("ab", "cd", "ef", "g").reshape(1, 4)}, "text_bytes"),
        ({"text": texts("", "", "", "")}, "rows"),
        ({"token_ids": np.zeros((4, 1), np.int32)}, "rows"),
    ],
)
def test_one_more_is_refused(inputs, reason):
    with pytest.raises(StatusError) as error:
        check_amounts(inputs, LIMITS)
    assert error.value.code is StatusCode.INVALID_ARGUMENT
    assert (error.value.http, error.value.reason) == (413, reason)
    flag = "--max-rows" if reason == "rows" else "--max-text-bytes"
    assert flag in error.value.message


def test_examples_are_measured_by_their_texts():
    limits = Limits(text_bytes=40, rows=3)

    def check(*examples):
        check_examples(np.array(examples, object), limits)

    check(example("text", "a" * 40))
    check(*[example("text", "")] * 3)
    check(example("image_bytes", "a" * 1000))
    for found in ([example("text", "a" * 41)], [example("text", "")] * 4):
        with pytest.raises(StatusError) as error:
            check(*found)
        assert error.value.http == 413


@pytest.mark.parametrize(
    ("stops", "reason"),
    [
        ([b"a"] * 3, None),
        ([b"a"] * 3 + [b""] * 9, None),
        ([b"a"] * 4, "stop_strings"),
        ([b"abcde"], None),
        (["éé".encode() + b"ab"], "stop_bytes"),
        ([b"a", b"abcdef"], "stop_bytes"),
    ],
)
def test_stop_strings_at_a_limit_and_one_beyond(stops, reason):
    limits = Limits(stop_strings=3, stop_bytes=5)
    if reason is None:
        check_stops(stops, limits)
        return
    with pytest.raises(StatusError, match="expected at most") as caught:
        check_stops(stops, limits)
    assert (caught.value.http, caught.value.reason) == (400, reason)
