"""Changes by a new configuration during operation, and invalid configurations."""

import logging
import shutil
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import grpc
import pytest
from grpc import StatusCode
from tensorflow_serving.apis import model_management_pb2

from tests.serving.server.conftest import NAME, running
from tests.serving.server.models.test_catalog import REFUSED, Loads, answering
from tests.serving.server.models.test_versions import write as write_versions
from transbeam.configs.base.errors import ConfigError
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.configuration.tf_serving_files import read_models
from transbeam.serving.server.models.catalog import Catalog, LogSettings, ModelSettings
from transbeam.serving.server.models.versions import Policy
from transbeam.serving.server.request_handling.reload_config import (
    WatchedConfigFile,
    reload_for_client,
    reload_models,
)

ALL = "model_version_policy { all {} }"
BODY = {"instances": [1.0]}
ANSWER = (200, {"predictions": [2.5]})
WAIT = 60


def until(condition):
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def write(file, *models):
    """A `model.config` of models: a name, a folder, and what else there is to say."""
    configs = (
        f'config {{ name: "{name}" base_path: "{folder}" {" ".join(more)} }}'
        for name, folder, *more in models
    )
    file.write_text(f"model_config_list {{ {' '.join(configs)} }}")
    return file


def labelled(label, version):
    return f'version_labels {{ key: "{label}" value: {version} }}'


@pytest.fixture
def service():
    """As far as it is needed: of stand-ins for versions, and without a log."""
    with closing(Catalog(Loads())) as catalog:
        yield SimpleNamespace(catalog=catalog, log=None)


@pytest.fixture
def folder(tmp_path):
    """Of a model, with version 1."""
    write_versions(tmp_path / "a", 1)
    return tmp_path / "a"


@pytest.fixture
def followed(service, tmp_path):
    return WatchedConfigFile(tmp_path / "model.config", service)


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.ERROR, "transbeam.serve")
    return lambda: [record.getMessage() for record in caplog.records]


def test_the_file_is_the_whole_truth_each_time(followed, service, tmp_path, folder):
    # tensorflow/serving: tensorflow_model_server_test.py:315 testModelConfigReload
    file = write(tmp_path / "model.config", ("a", folder))
    followed.poll()
    assert service.catalog.names() == ["a"]
    kept = service.catalog.model("a")
    write(file, ("a", folder), ("b", folder))
    followed.poll()
    assert service.catalog.names() == ["a", "b"]
    assert service.catalog.model("a") is kept
    # What somebody else asks for holds until the next look.
    service.catalog.configure([ModelSettings("b", folder)])
    followed.poll()
    assert service.catalog.names() == ["a", "b"]


def test_a_label_gets_its_version_when_that_answers(
    followed, service, tmp_path, folder, told
):
    file = write(tmp_path / "model.config", ("a", folder, ALL))
    followed.poll()
    write(file, ("a", folder, ALL, labelled("next", 2)))
    followed.poll()
    assert told() == [f"{file}: {REFUSED.format(2, 'a')}. All models stay as they are"]
    write_versions(folder, 2)
    service.catalog.model("a").poll()
    followed.poll()
    assert answering(service.catalog, "a", label="next") == (2, "a")
    assert len(told()) == 1


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda file: file.unlink(), "cannot be read"),
        (lambda file: file.write_bytes(b"\xff"), "cannot be read"),
        (lambda file: file.write_text("model_config_list {"), "model_config_list of"),
        (lambda file: file.write_text(""), "there is no model_config_list"),
        (lambda file: write(file, ("../a", "x")), "is not a name for a model"),
    ],
)
def test_a_file_that_has_become_unreadable_leaves_everything_as_it_was(
    followed, service, tmp_path, folder, told, spoil, message
):
    # tensorflow/serving: model_servers/server.cc:170 ModelServerConfig
    file = write(tmp_path / "model.config", ("a", folder))
    followed.poll()
    kept = service.catalog.model("a")
    good = file.read_text()
    spoil(file)
    followed.poll()
    followed.poll()
    assert service.catalog.names() == ["a"]
    assert service.catalog.model("a") is kept
    assert answering(service.catalog, "a") == (1, "a")
    [said] = told()
    assert said.startswith(str(file))
    assert message in said
    # Once for each time that it was good before.
    file.write_text(good)
    followed.poll()
    spoil(file)
    followed.poll()
    assert told() == [said, said]


def test_logs_are_as_they_were_when_the_server_was_started(service, folder):
    own = LogSettings("logs/a", 0.5)
    service.log = SimpleNamespace(settings=lambda name: own if name == "a" else None)
    models = [ModelSettings("a", folder, log=own), ModelSettings("b", folder)]
    reload_models(service, models)
    for name in ("a", "b"):
        other = ModelSettings(name, folder, log=LogSettings("elsewhere", 0.5))
        with pytest.raises(StatusError, match=f"{name}: logging_config: what is"):
            reload_models(service, [other])
    assert service.catalog.names() == ["a", "b"]


@pytest.mark.parametrize(("seconds", "found"), [(0.05, True), (0.0, False)])
def test_a_server_reads_its_file_again_if_it_is_told_to(
    half_plus_two, tmp_path, seconds, found
):
    # tensorflow/serving: tensorflow_model_server_test.py:370 testModelConfigReloadWithZ
    file = write(tmp_path / "model.config", (NAME, half_plus_two))
    changes = ServerSettings(
        models=tuple(read_models(file)),
        model_config_file=file,
        model_config_file_poll_wait_seconds=seconds,
        port=0,
        rest_port=0,
    )
    with running(changes) as client:
        looking = {thread.name for thread in threading.enumerate()}
        assert ("model.config" in looking) == found
        write(file, (NAME, half_plus_two), ("other", half_plus_two))
        if found:
            until(lambda: client.post("other:predict", BODY) == ANSWER)
        else:
            assert client.get("/v1/models/other")[0] == 404


def started_with(folder, label, version, **changes):
    models = (ModelSettings(NAME, folder, Policy(latest=None), {label: version}),)
    return running(ServerSettings(models=models, port=0, rest_port=0, **changes))


def test_at_the_start_labels_are_for_versions_that_were_loaded(half_plus_two):
    # tensorflow/serving: server_core.cc:563 allow_version_labels_for_unavailable_models
    with started_with(half_plus_two, "stable", 123) as client:
        assert client.post(f"{NAME}/labels/stable:predict", BODY) == ANSWER


def test_a_server_does_not_start_with_labels_of_versions_that_do_not_answer(
    half_plus_two,
):
    with (
        pytest.raises(ConfigError) as error,
        started_with(half_plus_two, "next", 124),
    ):
        pass
    said = str(error.value)
    assert said.startswith(REFUSED.format(124, NAME))
    assert "--allow-version-labels-for-unavailable-models" in said


def test_labels_may_wait_for_their_versions(half_plus_two, tmp_path):
    folder = shutil.copytree(half_plus_two, tmp_path / NAME)
    changes = {
        "poll_seconds": 0.05,
        "allow_version_labels_for_unavailable_models": True,
    }
    with started_with(folder, "next", 124, **changes) as client:
        asked = f"{NAME}/labels/next:predict"
        message = f"Servable not found for request: Specific({NAME}, 124)"
        assert client.post(asked, BODY) == (404, {"error": message})
        shutil.copytree(folder / "123", tmp_path / "coming")
        (tmp_path / "coming").rename(folder / "124")
        until(lambda: client.post(asked, BODY)[0] == 200)


def test_a_client_s_configuration_is_refused_as_a_whole(half_plus_two):
    request = model_management_pb2.ReloadConfigRequest()
    models = request.config.model_config_list.config
    models.add(name="other", base_path=str(half_plus_two))
    model = models.add(name=NAME, base_path=str(half_plus_two))
    model.version_labels["next"] = 124
    roots = (half_plus_two,)
    with started_with(half_plus_two, "stable", 123, reload_roots=roots) as client:
        with pytest.raises(grpc.RpcError) as refused:
            client.models.HandleReloadConfigRequest(request, WAIT)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert refused.value.details() == REFUSED.format(124, NAME)
        assert client.get("/v1/models/other")[0] == 404
        assert client.post(f"{NAME}/labels/next:predict", BODY)[0] == 400
        assert client.post(f"{NAME}/labels/stable:predict", BODY) == ANSWER


def reload_request(*models):
    request = model_management_pb2.ReloadConfigRequest()
    for name, folder in models:
        request.config.model_config_list.config.add(name=name, base_path=str(folder))
    return request


def test_a_client_reloads_nothing_unless_it_may(half_plus_two):
    with started_with(half_plus_two, "stable", 123) as client:
        with pytest.raises(grpc.RpcError) as refused:
            client.models.HandleReloadConfigRequest(
                reload_request((NAME, half_plus_two)), WAIT
            )
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "--allow-reload-from" in refused.value.details()
        assert client.post(f"{NAME}/labels/stable:predict", BODY) == ANSWER


@pytest.mark.parametrize("path", ["elsewhere/a", "root/../elsewhere/a", "root/link"])
def test_a_client_reloads_nothing_from_elsewhere(service, tmp_path, path):
    (tmp_path / "root").mkdir()
    write_versions(tmp_path / "elsewhere/a", 1)
    (tmp_path / "root/link").symlink_to(tmp_path / "elsewhere/a")
    wanted = [ModelSettings("a", tmp_path / path)]
    with pytest.raises(StatusError, match="below none of the folders") as error:
        reload_for_client(service, wanted, [tmp_path / "root"])
    assert error.value.code is StatusCode.PERMISSION_DENIED
    assert service.catalog.names() == []


def test_a_client_reloads_from_below_a_root_what_is_served_stays(service, tmp_path):
    for name in ("root/a", "b"):
        write_versions(tmp_path / name, 1)
    served = ModelSettings("b", tmp_path / "b")
    service.catalog.configure([served])
    wanted = [ModelSettings("a", tmp_path / "root/a"), served]
    reload_for_client(service, wanted, [tmp_path / "root"])
    assert service.catalog.names() == ["a", "b"]
