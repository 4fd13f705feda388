"""TF Serving's own files: read as it reads them, and by a server that answers."""

import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)
from tensorflow_serving.config import model_server_config_pb2

from tests.serving.deploy.conftest import MODEL
from tests.serving.deploy.peer_schemas import BATCHING, MONITORING
from tests.serving.server.conftest import running
from transbeam.serving.__main__ import main
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.configuration.tf_serving_files import (
    read_batching,
    read_models,
)


def message_of(messages, name):
    """A message class made of the fields that were restated."""
    field = descriptor_pb2.FieldDescriptorProto
    scalars = {"bool": field.TYPE_BOOL, "string": field.TYPE_STRING}
    scalars["int64"] = field.TYPE_INT64
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{name}.proto",
        package="restated",
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
    )
    for message, fields in messages.items():
        made = file.message_type.add(name=message)
        for key, (number, type_) in fields.items():
            label = field.LABEL_REPEATED if "[]" in type_ else field.LABEL_OPTIONAL
            type_ = type_.removesuffix("[]")
            one = made.field.add(name=key, number=number, label=label)
            if type_ in scalars:
                one.type = scalars[type_]
            else:
                package = "restated" if type_ in messages else "google.protobuf"
                one.type, one.type_name = field.TYPE_MESSAGE, f".{package}.{type_}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    found = pool.FindMessageTypeByName(f"restated.{name}")
    return message_factory.GetMessageClass(found)


def test_the_models(deployed):
    text = (deployed / "model.config").read_text()
    config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path) == (MODEL, f"/models/{MODEL}")
    assert model.model_version_policy.latest.num_versions == 1
    (settings,) = read_models(deployed / "model.config")
    assert settings.name == MODEL


def test_the_models_with_the_labels_that_the_comment_offers(deployed, tmp_path):
    lines = (deployed / "model.config").read_text().splitlines()
    ready = tmp_path / "model.config"
    ready.write_text(
        "\n".join(
            line.replace("# ", "", 1)
            if "# model_v" in line or "# version_" in line
            # The comment takes the place of this line.
            else ""
            if line.strip().startswith("model_version_policy")
            else line
            for line in lines
        )
    )
    (settings,) = read_models(ready)
    assert settings.labels == {"stable": 1, "canary": 2}
    assert settings.policy.latest == 2


def test_the_batching_parameters(deployed):
    file = deployed / "batching_parameters.txt"
    found = text_format.Parse(
        file.read_text(), message_of(BATCHING, "BatchingParameters")()
    )
    sizes = list(found.allowed_batch_sizes)
    assert sizes == sorted(sizes)
    assert sizes[-1] == found.max_batch_size.value
    assert found.pad_variable_length_inputs is False
    read = read_batching(file)
    assert read.max_batch_size == sizes[-1]
    assert read.num_batch_threads == found.num_batch_threads.value == 2
    compose = yaml.safe_load((deployed / "docker-compose.yml").read_text())
    threads = f"--rest_api_num_threads={2 * sizes[-1]}"
    assert threads in compose["services"]["model"]["command"]


def test_the_monitoring(deployed):
    found = text_format.Parse(
        (deployed / "monitoring.config").read_text(),
        message_of(MONITORING, "MonitoringConfig")(),
    )
    assert found.prometheus_config.enable
    assert found.prometheus_config.path == "/monitoring/prometheus/metrics"


@pytest.mark.parametrize(
    ("messages", "name", "text"),
    [
        (BATCHING, "BatchingParameters", "max_batch_size: 32"),
        (BATCHING, "BatchingParameters", "pad: false"),
        (MONITORING, "MonitoringConfig", 'path: "/metrics"'),
    ],
)
def test_what_the_server_could_not_read(messages, name, text):
    with pytest.raises(text_format.ParseError):
        text_format.Parse(text, message_of(messages, name)())


def is_healthy(folder, port, model=None):
    """Runs Compose's health check on a server at a port."""
    compose = yaml.safe_load((folder / "docker-compose.yml").read_text())
    kind, *command = compose["services"]["model"]["healthcheck"]["test"]
    assert kind == "CMD"
    command[-1] = command[-1].replace("/8501 ", f"/{port} ")
    if model:
        command[-1] = re.sub("/models/[^/]+/", f"/models/{model}/", command[-1])
    done = subprocess.run(command, timeout=30, capture_output=True, check=False)
    return done.returncode == 0


def test_a_server_with_these_files_answers_the_first_request(
    exported, tmp_path, capsys
):
    """A real export; the server is ours, with TF Serving's contract."""
    run = exported.folder
    command = ["deploy", str(run / "run.yaml"), "--run", str(run.parent), "--quiet"]
    assert main([*command, "--to", str(tmp_path)]) == 0
    config = tmp_path / "model.config"
    config.write_text(
        config.read_text().replace("/models/tiny", str(run / "saved_model"))
    )
    settings = ServerSettings(
        models=tuple(read_models(config)),
        batching=read_batching(tmp_path / "batching_parameters.txt"),
        port=0,
        rest_port=0,
    )
    with running(settings) as client:
        status, answer = client.post(
            "tiny:predict", (tmp_path / "request.json").read_bytes()
        )
        assert status == 200
        assert set(answer["predictions"][0]) == {"fills", "scores", "truncated"}
        port = int(client.addresses.rest.rpartition(":")[2])
        assert is_healthy(tmp_path, port)
        assert not is_healthy(tmp_path, port, "other")
        monitoring = (tmp_path / "monitoring.config").read_text()
        path = monitoring.partition('path: "')[2].partition('"')[0]
        status, _, page = client.send("GET", path)
        assert status == 200
        # What the README's queries ask for.
        for name in (b"request_count", b"request_latency_bucket"):
            assert b":tensorflow:serving:" + name in page
    assert not is_healthy(tmp_path, port)
    table = (tmp_path / "README.md").read_text()
    assert "| `serving_default` | `text` string | `fills` string, " in table
    assert "| `embed` | `text` string | `embedding` float, " in table


@pytest.mark.parametrize("status", [200, 404, 503])
def test_compose_sees_no_more_than_the_first_line(deployed, status):
    """A server that says `200` elsewhere is not healthy for it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            assert self.path == f"/v1/models/{MODEL}/metadata"
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"HTTP/1.0 200 OK\n" * 10_000)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            assert is_healthy(deployed, server.server_port) == (status == 200)
        finally:
            server.shutdown()
            thread.join()
