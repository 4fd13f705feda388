"""A server whose models are loaded still: its doors are open, and it ends at once."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import predict_pb2

from tests.serving.server.conftest import NAME, Client, settings_for
from tests.serving.server.sample_models.half_plus_two_model import save_half_plus
from tests.serving.server.server_process import ANY_PORTS
from transbeam.configs.base.errors import ArtifactError
from transbeam.serving.__main__ import main
from transbeam.serving.server import startup
from transbeam.serving.server.connections.addresses import listen
from transbeam.serving.server.models import catalog
from transbeam.serving.server.models.loaded_version import Loaded
from transbeam.serving.server.run import open_servers

GOOD = {"instances": [1.0]}
NOT_SERVING, SERVING = 2, 1


@pytest.fixture
def hanging(monkeypatch):
    """Lets the storage of models hang whose folder is named so, until it is let."""
    let = threading.Event()

    def load(folder, *rest):
        if folder.parent.name == "hanging":
            let.wait(60)
        return Loaded(folder, *rest)

    monkeypatch.setattr(startup, "Loaded", load)
    monkeypatch.setattr(catalog, "_TURN_SECONDS", 0.1)
    yield let
    let.set()


@pytest.fixture
def two(half_plus_two, tmp_path):
    """Settings of a model on storage that hangs and of one that does not."""
    (tmp_path / "hanging").symlink_to(half_plus_two)
    return settings_for(tmp_path / "hanging", half_plus_two)


def asked_while_loading(settings, ask, let):
    """Results of `ask` during loading and afterwards."""

    async def ask_twice():
        with listen(settings.host, 0) as listening:
            async with open_servers(settings, listening) as doors:
                begun = asyncio.ensure_future(doors.begin())
                client = Client(doors.addresses)
                try:
                    first = await asyncio.to_thread(ask, client)
                    let.set()
                    await begun
                    return first, await asyncio.to_thread(ask, client)
                finally:
                    client.close()

    return asyncio.run(ask_twice())


def test_the_doors_are_open_while_models_are_loaded(two, hanging):
    def ask(client):
        status = 0
        while status != 200:  # of the one that nothing holds up
            status, answer = client.post(f"{NAME}:predict", GOOD)
        assert answer == {"predictions": [2.5]}
        ready, headers, text = client.send("GET", "/readyz")
        with grpc.insecure_channel(client.addresses.grpc) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            health = health.Check(health_pb2.HealthCheckRequest(), 30).status
        return {
            "alive": client.send("GET", "/livez")[0],
            "ready": (ready, headers.get("retry-after"), text.decode()),
            "health": health,
            "asked": client.send("POST", "/v1/models/hanging:predict", b"{}")[:2],
            "metadata": client.send("GET", "/v1/models/hanging/metadata")[0],
            "unknown": client.send("GET", "/v1/models/x/metadata")[0],
        }

    first, then = asked_while_loading(two, ask, hanging)
    ready, later, text = first.pop("ready")
    assert (ready, later) == (503, "1")
    assert text.startswith("loading: 1 of 2 models answer after ")
    assert text.endswith("; not yet: hanging\n")
    status, headers = first.pop("asked")
    assert (status, headers["retry-after"]) == (503, "1")
    assert first == {
        "alive": 200,
        "health": NOT_SERVING,
        "metadata": 503,
        "unknown": 404,
    }
    assert then["ready"] == (200, None, "ok\n")
    assert (then["health"], then["metadata"]) == (SERVING, 200)
    assert then["asked"][0] == 400  # there is nothing in the body


def test_over_grpc_it_is_unavailable(two, hanging):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "hanging"

    def ask(client):
        with pytest.raises(grpc.RpcError) as error:
            client.prediction.Predict(request, 30)
        return error.value.code(), error.value.details()

    (code, details), (then, _) = asked_while_loading(two, ask, hanging)
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "hanging is being loaded" in details
    assert then is grpc.StatusCode.INVALID_ARGUMENT


def test_a_model_that_cannot_be_loaded_ends_it_beside_one_that_hangs(
    two, hanging, tmp_path
):
    (tmp_path / "empty").mkdir()
    models = (*two.models, *settings_for(tmp_path / "empty").models)
    settings = replace(two, models=models)

    def ask(client):
        return None

    # The other one is not let before.
    with pytest.raises(ArtifactError, match="nothing to serve as 'empty'"):
        asked_while_loading(settings, ask, threading.Event())
    assert not hanging.is_set()


@pytest.mark.parametrize("place", ["saved_model.pb", "variables/variables.index"])
def test_a_fifo_in_the_place_of_a_file_is_said(tmp_path, capsys, place):
    save_half_plus(tmp_path / NAME / "1")
    path = tmp_path / NAME / "1" / place
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert main(["serve", "--model", str(tmp_path / NAME), *ANY_PORTS]) == 2
    told = capsys.readouterr().err
    assert f"{place}: found a FIFO; expected a file" in told
    assert "Traceback" not in told


# Storage hangs as a FIFO does that nobody looks at before.
HANGING = """
import sys
from transbeam.serving.server import startup
from transbeam.serving.__main__ import main
startup.check_regular_files = lambda folder: None
sys.exit(main())
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)]
)
def test_told_to_stop_it_ends_at_once(tmp_path, number):
    (tmp_path / NAME / "1").mkdir(parents=True)
    os.mkfifo(tmp_path / NAME / "1/saved_model.pb")
    command = [sys.executable, "-c", HANGING, "serve", "--model", str(tmp_path / NAME)]
    with subprocess.Popen(
        [*command, *ANY_PORTS], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            assert any(line.startswith("Loading ") for line in lines)
            process.send_signal(number)
            # Less than the patience with storage, and far less than for ever.
            assert process.wait(9) == 0
            assert "Stopped during the loading of models." in "".join(lines)
        finally:
            process.kill()
