"""Logged requests and answers, read back."""

import time

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import classification_pb2, inference_pb2, input_pb2

from transbeam.serving.server.protocol.model_spec import model_spec, target_spec
from transbeam.serving.server.protocol.rest_paths import ModelTarget
from transbeam.serving.server.protocol.tensor_proto import to_array
from transbeam.serving.server.request_logging.prediction_log import (
    examples_entry,
    multi_inference_entry,
    predict_entry,
)


def texts(*values):
    packed = np.empty(len(values), object)
    packed[:] = values
    return packed


ARRAYS = {
    "text": texts(b"a", "\N{SNOWMAN}".encode(), b"\xff\x00"),
    "no text": texts(),
    "floats": np.array([[1.5, np.nan], [-np.inf, 0.0]], np.float32),
    "nothing": np.zeros([0, 3], np.int64),
    "a number": np.array(7, np.int32),
    "half": np.array([0.5], np.float16),
    "flags": np.array([True, False]),
    "many": np.arange(3000, dtype=np.int64).reshape(2, 1500),
    "many in part": np.arange(9000).reshape(2, 4500)[:, ::3],
    "much text": texts(*[b"%d" % number for number in range(3000)]),
    "a part of a batch": np.arange(24).reshape(4, 6)[1:3, ::2],
}


DEMO = ModelTarget("demo")


def predict(asked=DEMO, inputs=ARRAYS, outputs=ARRAYS, wanted=()):
    answered = model_spec("demo", 3, "serving_default")
    return predict_entry(target_spec(asked, ""), inputs, wanted, answered, outputs)


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back_as_they_were(name):
    log = predict().log(1.0).predict_log
    for tensor in (log.request.inputs[name], log.response.outputs[name]):
        # As the server reads it, and as everybody does.
        for found in (to_array(name, tensor), tf.make_ndarray(tensor)):
            np.testing.assert_array_equal(found, ARRAYS[name])
            assert found.dtype == ARRAYS[name].dtype


@pytest.mark.parametrize(
    "asked", [DEMO, ModelTarget("demo", version=3), ModelTarget("demo", label="stable")]
)
def test_who_was_asked_and_who_answered(asked):
    before = int(time.time())
    log = predict(asked, wanted=["y", "x"]).log(0.25)
    request = log.predict_log.request
    assert request.model_spec == target_spec(asked, "")
    assert list(request.output_filter) == ["y", "x"]
    answered = model_spec("demo", 3, "serving_default")
    assert log.predict_log.response.model_spec == answered
    assert log.log_metadata.model_spec == answered
    assert log.log_metadata.sampling_config.sampling_rate == 0.25
    assert list(log.log_metadata.saved_model_tags) == ["serve"]
    assert before <= log.log_metadata.timestamp_secs <= int(time.time())


def test_many_numbers_are_written_as_bytes():
    inputs = predict().log(1.0).predict_log.request.inputs
    assert len(inputs["many"].tensor_content) == 24_000
    assert list(inputs["a number"].int_val) == [7]


def test_the_time_is_that_of_the_answer(monkeypatch):
    entry = predict()
    answered = entry.seconds
    monkeypatch.setattr(time, "time", lambda: answered + 1000.0)
    assert entry.log(1.0).log_metadata.timestamp_secs == answered


def test_what_an_entry_keeps_is_about_what_it_weighs():
    numbers = {"x": np.zeros(1000, np.float32)}
    assert predict(inputs=numbers, outputs={}).size == 4000
    long = {"text": texts(b"a" * 5000, b"b" * 3000)}
    assert 8000 <= predict(inputs=long, outputs=long).size / 2 < 8100


@pytest.mark.parametrize("kind", ["example_list", "example_list_with_context"])
def test_examples(kind):
    asked = target_spec(ModelTarget("demo"), "classify")
    examples = input_pb2.Input()
    example = getattr(examples, kind).examples.add()
    example.features.feature["x"].float_list.value.append(2.0)
    response = classification_pb2.ClassificationResponse(
        model_spec=model_spec("demo", 3, "classify")
    )
    response.result.classifications.add().classes.add(label="y", score=3.0)
    entry = examples_entry("classify_log", asked, examples, response)
    log = entry.log(1.0)
    assert log.classify_log.request.input == examples
    assert log.classify_log.request.model_spec == asked
    assert log.classify_log.response == response
    assert log.log_metadata.model_spec == response.model_spec
    assert entry.size == examples.ByteSize() + response.ByteSize()


def test_several_signatures():
    request = inference_pb2.MultiInferenceRequest()
    request.tasks.add(method_name="tensorflow/serving/regress")
    response = inference_pb2.MultiInferenceResponse()
    response.results.add().regression_result.regressions.add(value=2.0)
    spec = model_spec("demo", 3)
    log = multi_inference_entry(spec, request, response).log(1.0)
    assert log.multi_inference_log.request == request
    assert log.multi_inference_log.response == response
    assert log.log_metadata.model_spec == spec
