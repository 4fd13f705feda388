"""Parameters of a text over `:predict` and gRPC, and the limits of both doors.

The model repeats what it was asked.
"""

import re

import grpc
import numpy as np
import pytest
from tensorflow_serving.apis import predict_pb2

from tests.serving.server.conftest import running
from tests.serving.server.openapi.test_document import described, question
from tests.serving.server.sample_models.counting_model import save_counting
from transbeam.serving.server.configuration.limits import Limits
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.models.catalog import ModelSettings
from transbeam.serving.server.monitoring.metrics import PATH as METRICS
from transbeam.serving.server.protocol.tensor_proto import to_array, to_proto

NAME = "counting"
LIMITS = Limits(stop_strings=2, stop_bytes=4)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / NAME
    save_counting(folder / "1")
    models = (ModelSettings(NAME, folder),)
    settings = ServerSettings(models=models, port=0, rest_port=0, limits=LIMITS)
    with running(settings) as client:
        yield client


def asked(server, *rows):
    """Status and answer over REST."""
    body = {"signature_name": "generate", "instances": list(rows)}
    return server.post(f"{NAME}:predict", body)


def asked_by_grpc(server, **inputs):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = NAME
    request.model_spec.signature_name = "generate"
    for name, values in inputs.items():
        dtype = np.int32 if isinstance(np.ravel(values)[0], np.integer) else object
        request.inputs[name].CopyFrom(to_proto(np.array(values, dtype)))
    response = server.prediction.Predict(request, 60)
    return to_array("", response.outputs["generated_text"]).tolist()


def test_what_is_left_out_is_the_signatures_default(server):
    assert asked(server, {"text": "a"}) == (200, {"predictions": ["a|-1|7|"]})
    rows = [{"text": "a", "max_new_tokens": 0}, {"text": "b", "seed": 3}]
    told = {"predictions": ["a|0|7|", "b|-1|3|"]}
    assert asked(server, *rows) == (200, told)
    body = {"signature_name": "generate", "inputs": {"text": ["a", "b"]}}
    told = {"outputs": ["a|-1|7|", "b|-1|7|"]}
    assert server.post(f"{NAME}:predict", body) == (200, told)
    found = asked_by_grpc(server, text=[b"a", b"b"], seed=[3, 4])
    assert found == [b"a|-1|3|", b"b|-1|4|"]


def test_several_strings_for_a_text(server):
    rows = [{"text": "a", "stop": [".", "!"]}, {"text": "b", "stop": "x"}]
    told = {"predictions": ["a|-1|7|.\x1f!", "b|-1|7|x"]}
    assert asked(server, *rows) == (200, told)
    found = asked_by_grpc(server, text=[b"a", b"b"], stop=[[b".", b"!"], [b"x", b""]])
    assert found == [b"a|-1|7|.\x1f!", b"b|-1|7|x\x1f"]


@pytest.mark.parametrize(
    ("stops", "reason"),
    [
        (["aaaa", "b"], None),
        (["a", "b", "c"], "stop_strings"),
        (["aaaaa"], "stop_bytes"),
    ],
)
def test_limits_over_all_roads(server, stops, reason):
    bytes_of = [stop.encode() for stop in stops]
    before = refused(server, reason)
    status, answer = asked(server, {"text": "a", "stop": stops}, {"text": "b"})
    joined, _ = asked(server, {"text": "a", "stop": "\x1f".join(stops)})
    body = b'{"text": "3", "stop": ["%s"]}' % b'", "'.join(bytes_of)
    streamed, _, events = server.send("POST", f"/v1/models/{NAME}:stream", body)
    if reason is None:
        assert (status, joined, streamed) == (200, 200, 200)
        asked_by_grpc(server, text=[b"a"], stop=[bytes_of])
        return
    assert (status, joined, streamed) == (400, 400, 400)
    assert "expected at most" in answer["error"]
    assert b"expected at most" in events
    with pytest.raises(grpc.RpcError, match="expected at most") as caught:
        asked_by_grpc(server, text=[b"a"], stop=[bytes_of])
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refused(server, reason) == before + 4


def refused(server, reason):
    """Counts of requests that were refused for a reason."""
    page = server.send("GET", METRICS)[2].decode()
    found = re.search(f'transbeam_refused_total{{reason="{reason}"}} ([0-9.]+)', page)
    return float(found.group(1)) if found else 0.0


def test_errors_say_nothing_of_the_graph(server):
    status, answer = asked(server, {"text": "a", "max_new_tokens": -5})
    said = "max_new_tokens: found -5, and that is no number"
    assert (status, answer) == (400, {"error": said})
    with pytest.raises(grpc.RpcError) as caught:
        asked_by_grpc(server, text=[b"a"], max_new_tokens=[-5])
    assert caught.value.details() == said


def test_it_is_described_as_it_is_taken(server):
    fits = question(described(server), name=NAME, version="1")

    def body(**row):
        return {"signature_name": "generate", "instances": [row]}

    for row in (
        {"text": "a"},
        {"text": "a", "stop": [".", "!"]},
        {"text": "a", "seed": 1},
    ):
        assert fits(body(**row))
        assert server.post(f"{NAME}:predict", body(**row))[0] == 200
    for row in ({}, {"stop": ["."]}, {"text": "a", "stop": [1]}, {"text": ["a"]}):
        assert not fits(body(**row))
        assert server.post(f"{NAME}:predict", body(**row))[0] == 400
