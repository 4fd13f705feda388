"""A Unix socket for gRPC, beside the port."""

import socket

import grpc
import numpy as np
import pytest
from tensorflow_serving.apis import prediction_service_pb2_grpc

from tests.serving.server.conftest import running, settings_for
from tests.serving.server.grpc_api.test_services import WAIT, predict_request
from transbeam.configs.base.errors import ConfigError
from transbeam.serving.server.connections.addresses import check_socket_path


def listening(path):
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(str(path))
    made.listen(1)
    return made


def test_both_the_port_and_the_socket_are_answered(half_plus_two, tmp_path):
    # tensorflow/serving: model_servers/tensorflow_model_server_test.py:604 UDS
    path = tmp_path / "grpc.sock"
    listening(path).close()  # as a server that was killed leaves it
    with running(settings_for(half_plus_two, grpc_socket_path=path)) as client:
        request = predict_request(x=np.array([2.0], np.float32))
        assert list(client.prediction.Predict(request, WAIT).outputs["y"].float_val)
        with grpc.insecure_channel(f"unix:{path}") as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            answer = stub.Predict(request, WAIT)
        assert list(answer.outputs["y"].float_val) == [3.0]
        with pytest.raises(ConfigError, match="a server listens there"):
            check_socket_path(path)
    assert not path.exists()


def test_one_that_listens_is_left_alone(tmp_path):
    path = tmp_path / "busy.sock"
    with listening(path), pytest.raises(ConfigError, match="a server listens there"):
        check_socket_path(path)


def test_paths_that_are_none(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ConfigError, match="something else is there"):
        check_socket_path(file)
    assert file.read_text() == "mine"
    with pytest.raises(ConfigError, match="there is no folder"):
        check_socket_path(tmp_path / "none" / "grpc.sock")
    with pytest.raises(ConfigError, match="at most 107 bytes"):
        check_socket_path(tmp_path / ("a" * 108))
    check_socket_path(tmp_path / "new.sock")
