"""An answer of many values keeps nobody waiting, at either door.

Its values are written in a thread, not where all connections are served; over REST it
leaves in pieces, for a connection takes what is sent at once into a buffer.
"""

import json
import os
import sys
import threading

import numpy as np
import pytest
from tensorflow_serving.apis import predict_pb2

from tests.serving.server.conftest import NAME, running, settings_for
from transbeam.serving.server.grpc_api import services
from transbeam.serving.server.protocol.tensor_proto import to_proto
from transbeam.serving.server.rest_api import app

VALUES = np.arange(100_000, dtype=np.float32)[None]
FEW = VALUES[:, :2]


@pytest.fixture
def threads(monkeypatch):
    """Threads that wrote values, and by how much they yield to others."""
    found = []
    for module, name in ((app, "predict_pieces"), (services, "write_proto")):
        write = getattr(module, name)

        def writing(*given, write=write):
            thread = threading.get_native_id() if sys.platform == "linux" else 0
            nice = os.getpriority(os.PRIO_PROCESS, thread)
            found.append((threading.current_thread(), nice))
            return write(*given)

        monkeypatch.setattr(module, name, writing)
    return found


def ask_rest(server, values):
    body = json.dumps({"inputs": values.tolist()})
    path = f"/v1/models/{NAME}:predict"
    status, headers, answer = server.send("POST", path, body)
    assert status == 200
    assert int(headers["content-length"]) == len(answer)
    return json.loads(answer)["outputs"]


def ask_rpc(server, values):
    request = predict_pb2.PredictRequest(output_filter=["y"])
    request.model_spec.name = NAME
    request.inputs["x"].CopyFrom(to_proto(values))
    found = server.prediction.Predict(request, 30).outputs["y"].float_val
    return np.reshape(found, values.shape)


@pytest.mark.parametrize("ask", [ask_rest, ask_rpc])
def test_many_values_are_written_aside(server, threads, ask):
    np.testing.assert_array_equal(ask(server, FEW), FEW / 2 + 2)
    np.testing.assert_array_equal(ask(server, VALUES), VALUES / 2 + 2)
    (few, before), (many, after) = threads
    assert few.name == "server"
    assert many is not few
    if sys.platform == "linux":
        assert after == min(19, before + 5)


def test_an_answer_of_many_values_leaves_in_pieces(server, monkeypatch):
    sizes = []
    respond = app._Pieces.__call__

    async def responding(self, scope, receive, send):
        async def sending(message):
            sizes.append(len(message.get("body", b"")))
            await send(message)

        await respond(self, scope, receive, sending)

    monkeypatch.setattr(app._Pieces, "__call__", responding)
    np.testing.assert_array_equal(ask_rest(server, VALUES), VALUES / 2 + 2)
    assert sum(sizes) > 1e6
    assert max(sizes) < 1e5


def test_threads_for_large_answers_end_with_their_server(half_plus_two, threads):
    # A command that Ctrl-C ends does so at once if there are threads to wait for.
    with running(settings_for(half_plus_two)) as client:
        ask_rest(client, VALUES)
        ask_rpc(client, VALUES)
    assert [thread.is_alive() for thread, _ in threads] == [False, False]
