"""Small SavedModels, and servers of them in a thread of the test's process."""

import http.client
import json
import logging
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import pytest
from tensorflow_serving.apis import (
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from tests.serving.server.sample_models.half_plus_two_model import (
    folder_of_half_plus_two,
)
from transbeam.serving.server.background_server import in_background
from transbeam.serving.server.base.auth import AccessTokens, Right
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.models.catalog import ModelSettings

NAME = "half_plus_two"
# A token for everything.
SECRET = AccessTokens({"secret": frozenset(Right)})


@pytest.fixture(scope="session")
def half_plus_two() -> Path:
    """A model's folder, with version 123; tests only read it."""
    return folder_of_half_plus_two()


class Client:
    """Asks a server over both doors."""

    def __init__(self, addresses):
        self.addresses = addresses
        self.host = urlsplit(addresses.rest).netloc
        # A server without gRPC has no address; nothing is then asked over the channel.
        self._channel = grpc.insecure_channel(addresses.grpc or "localhost:0")
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(
            self._channel
        )
        self.models = model_service_pb2_grpc.ModelServiceStub(self._channel)

    def close(self):
        self._channel.close()

    def send(self, method, path, body=None, headers=None):
        """Status, headers and bytes of an answer."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def post(self, path, body, **headers):
        """Status and JSON of the answer to a JSON body."""
        text = body if isinstance(body, bytes | str) else json.dumps(body)
        status, _, answer = self.send("POST", f"/v1/models/{path}", text, headers)
        return status, json.loads(answer)

    def get(self, path):
        """Status and JSON."""
        status, _, answer = self.send("GET", path)
        return status, json.loads(answer)


@pytest.fixture(autouse=True)
def a_log_as_it_was():
    """The command sets up the log of its process, which here is that of all tests."""
    log = logging.getLogger("transbeam.serve")
    handlers, level, propagate = [*log.handlers], log.level, log.propagate
    yield
    log.handlers[:] = handlers
    log.setLevel(level)
    log.propagate = propagate


@contextmanager
def running(settings):
    """A server in a thread, and a client of it."""
    with in_background(settings) as addresses:
        client = Client(addresses)
        try:
            yield client
        finally:
            client.close()


def settings_for(*folders, **changes):
    models = tuple(ModelSettings(folder.name, folder) for folder in folders)
    return ServerSettings(**{"models": models, "port": 0, "rest_port": 0, **changes})


@pytest.fixture(scope="module")
def server(half_plus_two):
    """A server of `half_plus_two`, with everything as it is by default."""
    with running(settings_for(half_plus_two)) as client:
        yield client
