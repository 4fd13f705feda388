"""gRPC's own services: health, for who balances the load, and reflection."""

import contextlib
import threading
import time

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tensorflow_serving.apis import get_model_status_pb2, model_management_pb2

from tests.serving.server.conftest import NAME, SECRET, running, settings_for
from tests.serving.server.sample_models.half_plus_two_model import Held
from tests.serving.server.test_fault_tolerance import until
from transbeam.serving.server.models.catalog import Catalog

WAIT = 30.0
SERVING, NOT_SERVING, UNKNOWN = 1, 2, 3


@contextlib.contextmanager
def stub_of(client, stub):
    with grpc.insecure_channel(client.addresses.grpc) as channel:
        yield stub(channel)


@contextlib.contextmanager
def health_of(client):
    with stub_of(client, health_pb2_grpc.HealthStub) as health:

        def check(service=""):
            request = health_pb2.HealthCheckRequest(service=service)
            return health.Check(request, WAIT).status

        def watch(service=""):
            request = health_pb2.HealthCheckRequest(service=service)
            return health.Watch(request, timeout=60)

        yield check, watch


def reload(client, *models):
    request = model_management_pb2.ReloadConfigRequest()
    for name, folder in models:
        model = request.config.model_config_list.config.add()
        model.name, model.base_path = name, str(folder)
    client.models.HandleReloadConfigRequest(request, WAIT)


@pytest.mark.parametrize(
    "service",
    [
        "",
        "PredictionService",
        "ModelService",
        "tensorflow.serving.PredictionService",
        "tensorflow.serving.ModelService",
    ],
)
def test_a_server_that_answers_is_healthy(server, service):
    # tensorflow/serving: model_servers/server.cc:420 SetServingStatus
    with health_of(server) as (check, watch):
        assert check(service) == SERVING
        watching = watch(service)
        assert next(watching).status == SERVING
        watching.cancel()


@pytest.mark.parametrize("service", ["x", NAME, "tensorflow.serving."])
def test_a_service_that_there_is_not(server, service):
    with health_of(server) as (check, watch):
        with pytest.raises(grpc.RpcError) as caught:
            check(service)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        watching = watch(service)
        assert next(watching).status == UNKNOWN
        watching.cancel()


def test_it_is_ready_when_every_model_answers(half_plus_two, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "transbeam.serving.server.grpc_api.standard_services._LOOK_SECONDS", 0.01
    )
    settings = settings_for(half_plus_two, reload_roots=(tmp_path,))
    with running(settings) as client, health_of(client) as found:
        check, watch = found
        watchers = [watch() for _ in range(3)]
        assert [next(each).status for each in watchers] == [SERVING] * 3
        # One that leaves takes no other along.
        watchers.pop().cancel()
        # What finds nothing changes nothing.
        (tmp_path / "empty").mkdir()
        with pytest.raises(grpc.RpcError, match="there is no version folder"):
            reload(client, (NAME, half_plus_two), ("empty", tmp_path / "empty"))
        assert client.send("GET", "/readyz")[0] == 200
        with monkeypatch.context() as unready:
            unready.setattr(Catalog, "ready", lambda self: False)
            assert client.send("GET", "/readyz")[0] == 503
            assert check() == NOT_SERVING
            assert [next(each).status for each in watchers] == [NOT_SERVING] * 2
        assert check() == SERVING
        assert [next(each).status for each in watchers] == [SERVING] * 2
        for each in watchers:
            each.cancel()


def test_a_server_that_stops_says_so_and_does_not_wait_for_who_watches(
    half_plus_two, tmp_path
):
    question = Held(tmp_path / "question")
    answers, seen, told = [], [], threading.Event()

    def listen():
        for status in watching:
            seen.append(status.status)
            told.set()

    with contextlib.ExitStack() as rest:
        with running(settings_for(half_plus_two)) as client:
            _, watch = rest.enter_context(health_of(client))
            watching = watch()
            seen.append(next(watching).status)
            path = f"{NAME}:predict"
            asking = threading.Thread(
                target=lambda: answers.append(client.post(path, question.body))
            )
            asking.start()
            until(lambda: question.is_run)
            listening = threading.Thread(target=listen)
            listening.start()
            # It says so while it has still to answer.
            answering = threading.Thread(
                target=lambda: told.wait(60) and question.let()
            )
            answering.start()
            began = time.monotonic()
        # Far less than those 30 s that a request may take.
        assert time.monotonic() - began < 15
        asking.join(60)
        listening.join(60)
    assert answers == [(200, question.answer)]
    assert seen == [SERVING, NOT_SERVING]


def asked(reflection, **request):
    [response] = reflection.ServerReflectionInfo(
        iter([reflection_pb2.ServerReflectionRequest(**request)]), timeout=WAIT
    )
    return response


def test_reflection_tells_what_can_be_asked(server):
    # tensorflow/serving: model_servers/BUILD:560 _reflection
    with stub_of(server, reflection_pb2_grpc.ServerReflectionStub) as reflection:
        listed = asked(reflection, list_services="").list_services_response
        assert {service.name for service in listed.service} == {
            "tensorflow.serving.PredictionService",
            "tensorflow.serving.ModelService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
        }
        for service in listed.service:
            found = asked(reflection, file_containing_symbol=service.name)
            files = [
                descriptor_pb2.FileDescriptorProto.FromString(file)
                for file in found.file_descriptor_response.file_descriptor_proto
            ]
            names = {f"{file.package}.{s.name}" for file in files for s in file.service}
            assert service.name in names
            # All that they need is there: a tool can read messages by it.
            known = {file.name for file in files}
            assert {name for file in files for name in file.dependency} <= known


def test_a_token_is_for_everything_but_health(half_plus_two):
    with running(settings_for(half_plus_two, tokens=SECRET)) as client:
        with health_of(client) as (check, watch):
            assert check() == SERVING
            watching = watch()
            assert next(watching).status == SERVING
            watching.cancel()
        with stub_of(client, reflection_pb2_grpc.ServerReflectionStub) as reflection:
            request = reflection_pb2.ServerReflectionRequest(list_services="")
            with pytest.raises(grpc.RpcError) as caught:
                list(reflection.ServerReflectionInfo(iter([request]), timeout=WAIT))
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            shown = (("authorization", "Bearer secret"),)
            told = reflection.ServerReflectionInfo(
                iter([request]), timeout=WAIT, metadata=shown
            )
            assert len(list(told)) == 1
        request = get_model_status_pb2.GetModelStatusRequest()
        with pytest.raises(grpc.RpcError) as caught:
            client.models.GetModelStatus(request, WAIT)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
