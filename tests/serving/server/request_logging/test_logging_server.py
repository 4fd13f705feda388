"""Requests that a server writes down, from both doors; and what they are good for."""

import json
import shutil
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    model_management_pb2,
    prediction_log_pb2,
    regression_pb2,
)

from tests.serving.server.conftest import NAME, running, settings_for
from tests.serving.server.grpc_api.test_services import (
    CLASSIFY,
    REGRESS,
    WAIT,
    examples_of,
    multi,
    predict_request,
)
from tests.serving.server.sample_models.counting_model import save_counting
from tests.serving.server.sample_models.half_plus_two_model import (
    Held,
    save_of_tensorflow_1,
)
from tests.serving.server.server_process import commanded, started
from tests.serving.server.test_command import ask
from tests.serving.server.test_fault_tolerance import until
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.inference.servable import Servable
from transbeam.serving.server.models.batching.batch_queue import BatchingParameters
from transbeam.serving.server.models.catalog import LogSettings, ModelSettings
from transbeam.serving.server.models.loaded_version import Loaded
from transbeam.serving.server.models.warmup_requests import FILE


@pytest.fixture
def logs(tmp_path):
    return tmp_path / "logs"


def logging(folder, logs, **changes):
    return settings_for(folder, log=LogSettings(f"{logs}/"), **changes)


def read(logs):
    """All that was written, in order."""
    return [
        prediction_log_pb2.PredictionLog.FromString(record.numpy())
        for path in sorted(logs.iterdir())
        for record in tf.data.TFRecordDataset(str(path))
    ]


def example_request(kind, signature, value):
    request = examples_of(kind(), value)
    request.model_spec.name = NAME
    request.model_spec.signature_name = signature
    return request


def test_both_doors_write_the_same(half_plus_two, logs):
    asked = predict_request(version=123, signature="two", outputs=["y"])
    asked.inputs.clear()
    inputs = {"x": [2.0, 4.0], "scale": [1, 2]}
    for name, dtype in (("x", np.float32), ("scale", np.int32)):
        asked.inputs[name].CopyFrom(tf.make_tensor_proto(inputs[name], dtype))
    body = {"signature_name": "two", "inputs": inputs}
    with running(logging(half_plus_two, logs)) as client:
        client.prediction.Predict(asked, WAIT)
        assert client.post(f"{NAME}/versions/123:predict", body)[0] == 200
    for log, outputs in zip(read(logs), [{"y"}, {"y", "as_text"}], strict=True):
        request, response = log.predict_log.request, log.predict_log.response
        assert request.model_spec == asked.model_spec
        for name, values in inputs.items():
            assert tf.make_ndarray(request.inputs[name]).tolist() == values
        assert response.outputs.keys() == outputs
        assert tf.make_ndarray(response.outputs["y"]).tolist() == [3.0, 8.0]
        for spec in (response.model_spec, log.log_metadata.model_spec):
            assert (spec.name, spec.version.value) == (NAME, 123)
            assert spec.signature_name == "two"
        assert log.log_metadata.sampling_config.sampling_rate == 1.0
    assert [list(log.predict_log.request.output_filter) for log in read(logs)] == [
        ["y"],
        [],
    ]


def test_each_kind_of_request(tmp_path, logs):
    save_of_tensorflow_1(tmp_path / NAME / "1")
    classify = example_request(
        classification_pb2.ClassificationRequest, "classify_x_to_y", 2.0
    )
    regress = example_request(regression_pb2.RegressionRequest, "regress_x_to_y", 80.0)
    several = multi(REGRESS, CLASSIFY)
    with running(logging(tmp_path / NAME, logs)) as client:
        classified = client.prediction.Classify(classify, WAIT)
        regressed = client.prediction.Regress(regress, WAIT)
        both = client.prediction.MultiInference(several, WAIT)
        body = {"signature_name": "regress_x_to_y", "examples": [{"x": 80.0}]}
        assert client.post(f"{NAME}:regress", body)[0] == 200
        body = {"signature_name": "classify_x_to_y", "examples": [{"x": 2.0}]}
        assert client.post(f"{NAME}:classify", body)[0] == 200
    first, second, third, fourth, fifth = read(logs)
    for log in (first, fifth):
        assert log.classify_log.request == classify
        assert log.classify_log.response == classified
    for log in (second, fourth):
        assert log.regress_log.request == regress
        assert log.regress_log.response == regressed
    assert third.multi_inference_log.request == several
    assert third.multi_inference_log.response == both
    assert third.log_metadata.model_spec.version.value == 1


def test_what_failed_is_not_written(half_plus_two, logs):
    with running(logging(half_plus_two, logs)) as client:
        wrong = {"signature_name": "rows", "instances": ["poison"]}
        assert client.post(f"{NAME}:predict", wrong)[0] == 400
        assert client.post(f"{NAME}:predict", {"instances": ["x"]})[0] == 400
        for request in (predict_request("foo"), predict_request(signature="zz")):
            with pytest.raises(grpc.RpcError):
                client.prediction.Predict(request, WAIT)
        assert client.post(f"{NAME}:predict", {"instances": [1.0]})[0] == 200
        page = client.send("GET", "/monitoring/prometheus/metrics")[2].decode()
    assert len(read(logs)) == 1
    assert 'outcome="dropped"' not in page


def test_streams_are_not_written(tmp_path, logs):
    folder = tmp_path / "counting"
    save_counting(folder / "1")
    with running(logging(folder, logs)) as client:
        body = json.dumps({"text": "3"})
        path = "/v1/models/counting:stream"
        assert b"event: done" in client.send("POST", path, body)[2]
    assert read(logs) == []


def test_nothing_is_written_unless_it_is_asked_for(
    half_plus_two, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with running(settings_for(half_plus_two)) as client:
        assert client.post(f"{NAME}:predict", {"instances": [1.0]})[0] == 200
        page = client.send("GET", "/monitoring/prometheus/metrics")[2].decode()
    assert "transbeam_logged_requests_total{" not in page
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_is_counted(half_plus_two, logs):
    with running(logging(half_plus_two, logs)) as client:

        def counted():
            page = client.send("GET", "/monitoring/prometheus/metrics")[2].decode()
            labels = f'{{model_name="{NAME}",outcome="written"}}'
            return f"\ntransbeam_logged_requests_total{labels} 2.0\n" in page

        for _ in range(2):
            client.post(f"{NAME}:predict", {"instances": [1.0]})
        until(counted)


def test_a_disk_that_fails_costs_no_answer(half_plus_two, logs):
    with running(logging(half_plus_two, logs)) as client:
        for _ in range(3):
            assert client.post(f"{NAME}:predict", {"instances": [1.0]})[0] == 200
            shutil.rmtree(logs, ignore_errors=True)
        client.prediction.Predict(predict_request(), WAIT)


def test_a_log_is_a_file_of_warm_up_requests_as_it_is(tmp_path, logs, monkeypatch):
    folder = tmp_path / NAME
    save_of_tensorflow_1(folder / "1")
    asked = [(n, {"examples": [{"x": float(n)}]}) for n in range(1, 4)]
    with running(logging(folder, logs)) as client:
        for number, body in asked:
            method = "regress" if number % 2 else "classify"
            body = {"signature_name": f"{method}_x_to_y", **body}
            assert client.post(f"{NAME}:{method}", body)[0] == 200
        request = predict_request(signature="regress_x_to_y", inputs=np.array([b""]))
        request.inputs["inputs"].string_val[0] = (
            examples_of(regression_pb2.RegressionRequest(), 9.0)
            .input.example_list.examples[0]
            .SerializeToString()
        )
        client.prediction.Predict(request, WAIT)
    [file] = logs.iterdir()
    assert file.suffix == ".tfrecord"
    (folder / "1" / FILE).parent.mkdir()
    shutil.copy(file, folder / "1" / FILE)
    ran = []
    run = Servable.run

    def seeing(self, signature, inputs, *arguments, **how):
        [serialized] = inputs["inputs"]
        example = tf.train.Example.FromString(serialized)
        ran.append((signature.name, example.features.feature["x"].float_list.value[0]))
        return run(self, signature, inputs, *arguments, **how)

    monkeypatch.setattr(Servable, "run", seeing)
    Loaded(folder / "1", BatchingParameters(), 60.0, lambda timing: None).close()
    assert ran == [
        ("regress_x_to_y", 1.0),
        ("classify_x_to_y", 2.0),
        ("regress_x_to_y", 3.0),
        ("regress_x_to_y", 9.0),
    ]


def test_texts_of_predict_warm_up_as_they_are(half_plus_two, tmp_path, logs):
    folder = shutil.copytree(half_plus_two / "123", tmp_path / NAME / "1")
    texts = ["It returns.", "\N{SNOWMAN}", {"b64": "/wA="}]
    body = {"signature_name": "rows", "instances": texts}
    with running(logging(folder.parent, logs)) as client:
        assert client.post(f"{NAME}:predict", body)[0] == 200
    [file] = logs.iterdir()
    (folder / FILE).parent.mkdir()
    shutil.copy(file, folder / FILE)
    with running(settings_for(folder.parent)) as client:
        found = client.post(f"{NAME}:predict", body)[1]["predictions"]
    assert [row["length"] for row in found] == [11, 3, 2]


def test_a_client_cannot_have_others_texts_written(half_plus_two, logs, tmp_path):
    own = LogSettings(f"{logs}/own", 0.5)
    models = (ModelSettings(NAME, half_plus_two, log=own),)
    doors = {"port": 0, "rest_port": 0, "reload_roots": (tmp_path,)}
    with running(ServerSettings(models=models, **doors)) as client:
        request = model_management_pb2.ReloadConfigRequest()
        model = request.config.model_config_list.config.add()
        model.name, model.base_path = NAME, str(half_plus_two)
        client.models.HandleReloadConfigRequest(request, WAIT)
        collector = model.logging_config.log_collector_config
        collector.filename_prefix = f"{tmp_path}/elsewhere/all"
        model.logging_config.sampling_config.sampling_rate = 0.5
        with pytest.raises(grpc.RpcError) as caught:
            client.models.HandleReloadConfigRequest(request, WAIT)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "when the server is started" in caught.value.details()
        # What is so already may be said again.
        collector.filename_prefix = own.prefix
        client.models.HandleReloadConfigRequest(request, WAIT)
    with running(settings_for(half_plus_two, reload_roots=(tmp_path,))) as client:
        with pytest.raises(grpc.RpcError):
            client.models.HandleReloadConfigRequest(request, WAIT)
        assert client.post(f"{NAME}:predict", {"instances": [1.0]})[0] == 200
    assert not (tmp_path / "elsewhere").exists()


def test_a_server_that_is_told_to_stop_writes_what_it_answered(half_plus_two, logs):
    arguments = ["--model", str(half_plus_two), "--log-requests", str(logs)]
    with commanded(*arguments) as addresses:
        for number in range(200):
            ask(addresses.rest, {"instances": [float(number)]})
    assert [path.suffix for path in logs.iterdir()] == [".tfrecord"]
    asked = [
        tf.make_ndarray(log.predict_log.request.inputs["x"]).tolist()
        for log in read(logs)
    ]
    assert asked == [[float(number)] for number in range(200)]


def test_a_server_that_is_killed_at_work_leaves_what_it_wrote_and_begins_again(
    half_plus_two, logs, tmp_path
):
    questions = [Held(tmp_path / str(number)) for number in range(4)]

    def asked_in_vain(question):
        with pytest.raises(ConnectionError):
            ask(address, question.body)

    arguments = ["--model", str(half_plus_two), "--log-requests", str(logs)]
    arguments += ["--log-sample", "1"]
    with ThreadPoolExecutor(4) as pool, started(*arguments) as (process, address):
        ask(address, {"instances": [1.0]})
        metrics = f"{address}/monitoring/prometheus/metrics"

        def says(text):
            with urllib.request.urlopen(metrics, timeout=10) as page:
                return text in page.read()

        until(lambda: says(b'outcome="written"} 1.0'))
        asking = [pool.submit(asked_in_vain, question) for question in questions]
        until(lambda: says(b"requests_in_flight 4.0"))
        process.kill()
        process.wait(60)
        for asked in asking:
            asked.result(60)
    assert [path.name.endswith(".tfrecord.tmp") for path in logs.iterdir()] == [True]
    assert len(read(logs)) == 1
    # Who comes next has a file of its own.
    with running(logging(half_plus_two, logs)) as client:
        answer = client.post(f"{NAME}:predict", {"instances": [1.0]})
        assert answer == (200, {"predictions": [2.5]})
    assert [path.suffix for path in sorted(logs.iterdir())] == [".tmp", ".tfrecord"]
    assert len(read(logs)) == 2
