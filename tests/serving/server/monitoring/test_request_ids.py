"""Ids of requests, in answers and in the access log, over both doors."""

import json
import time

import grpc
import numpy as np
import pytest

from tests.serving.server.conftest import NAME, running, settings_for
from tests.serving.server.grpc_api.test_services import predict_request
from transbeam.configs.base.errors import ArtifactError
from transbeam.serving.server.monitoring.access_log import AccessLog
from transbeam.serving.server.monitoring.request_ids import RequestContext

PREDICT = f"/v1/models/{NAME}:predict"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
WAIT = 30.0


@pytest.fixture(scope="module")
def logged(half_plus_two, tmp_path_factory):
    """A server with an access log."""
    file = tmp_path_factory.mktemp("access") / "log"
    with running(settings_for(half_plus_two, access_log=file)) as client:
        client.log = file
        yield client


def line_for(client, own):
    """The log line of a request, by its id."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        lines = map(json.loads, client.log.read_text().splitlines())
        if found := [line for line in lines if line["request_id"] == own]:
            return found[0]
        time.sleep(0.01)
    raise AssertionError(f"{own} is not in the log")


def post(client, body, **headers):
    status, told, _ = client.send("POST", PREDICT, json.dumps(body), headers)
    return status, {name.lower(): value for name, value in told.items()}


def test_an_id_comes_back_over_rest_and_is_logged(logged):
    body = {"signature_name": "rows", "instances": ["a secret", "b"]}
    headers = {"X-Request-ID": "rest-1", "traceparent": TRACE}
    status, told = post(logged, body, **headers)
    assert (status, told["x-request-id"], told["traceparent"]) == (200, "rest-1", TRACE)
    line = line_for(logged, "rest-1")
    assert line["queue_ms"] >= 0
    assert 0 < line["graph_ms"] <= line["ms"]
    expected = {
        "traceparent": TRACE,
        "door": "REST",
        "api": "Predict",
        "model": NAME,
        "version": 123,
        "signature": "rows",
        "rows": 2,
        "status": "200",
    }
    assert {name: line[name] for name in expected} == expected
    assert "secret" not in logged.log.read_text()


def test_an_error_has_its_id_too(logged):
    status, told = post(logged, {"instances": ["no number"]}, **{"X-Request-ID": "e"})
    assert (status, told["x-request-id"]) == (400, "e")
    assert line_for(logged, "e")["status"] == "400"
    status, told, _ = logged.send(
        "GET", "/zz?text=secret", headers={"X-Request-ID": "f"}
    )
    assert status == 404
    line = line_for(logged, "f")
    assert line.keys() == {"time", "request_id", "door", "ms", "status"}


@pytest.mark.parametrize(
    "given", [None, "a b", "é".encode().decode("latin-1"), "a" * 129]
)
def test_without_an_id_that_can_be_written_one_is_made(logged, given):
    headers = {} if given is None else {"X-Request-ID": given}
    _, told = post(logged, {"instances": [1.0]}, **headers)
    assert len(told["x-request-id"]) == 32
    assert "traceparent" not in told


def test_an_id_comes_back_over_grpc_and_is_logged(logged):
    metadata = [("x-request-id", "grpc-1"), ("traceparent", TRACE)]
    request = predict_request(x=np.ones(3, "f4"))
    _, call = logged.prediction.Predict.with_call(request, WAIT, metadata=metadata)
    assert set(metadata) <= {
        (each.key, each.value) for each in call.trailing_metadata()
    }
    line = line_for(logged, "grpc-1")
    assert (line["door"], line["status"], line["rows"]) == ("GRPC", "OK", 3)


def test_an_error_over_grpc_has_its_id_too(logged):
    metadata = [("x-request-id", "grpc-2")]
    with pytest.raises(grpc.RpcError) as error:
        logged.prediction.Predict(predict_request("zz"), WAIT, metadata=metadata)
    assert ("x-request-id", "grpc-2") in error.value.trailing_metadata()
    line = line_for(logged, "grpc-2")
    assert line["status"] == "NOT_FOUND"
    assert "model" not in line  # clients can make names up


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path):
    file = tmp_path / "log"
    log = AccessLog(file)
    log(RequestContext("a", None, "REST"))
    while not file.read_text():
        time.sleep(0.01)
    file.rename(tmp_path / "old")
    log(RequestContext("b", None, "REST"))
    log.close()
    assert [json.loads(file.read_text())["request_id"]] == ["b"]


def test_a_file_that_cannot_be_written_is_said_at_the_start(tmp_path):
    with pytest.raises(ArtifactError, match="--access-log"):
        AccessLog(tmp_path / "none" / "log")
