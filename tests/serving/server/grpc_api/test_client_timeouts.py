"""Clients of gRPC that keep the server waiting."""

import struct

import grpc
import numpy as np
import pytest

from tests.serving.server.conftest import running, settings_for
from tests.serving.server.connections.test_connection_limits import counted
from tests.serving.server.grpc_api.raw_http2_client import GOAWAY, RESET, RawHttp2
from tests.serving.server.grpc_api.test_services import predict_request
from tests.serving.server.sample_models.counting_model import save_counting
from tests.serving.server.test_fault_tolerance import in_flight, until
from transbeam.serving.server.configuration.limits import Limits
from transbeam.serving.server.connections.connection_limits import ConnectionLimits
from transbeam.serving.server.grpc_api.services import SERVICE, STREAMED

PREDICT = f"/{SERVICE}/Predict"


@pytest.fixture(scope="module")
def short(half_plus_two, tmp_path_factory):
    folder = tmp_path_factory.mktemp("short") / "counting"
    save_counting(folder / "1")
    limits = ConnectionLimits(
        head_seconds=0.2,
        idle_seconds=0.5,
        unread_seconds=0.3,
        connections=8,
        calls=20,
        head_bytes=2**14,
    )
    settings = settings_for(
        half_plus_two, folder, connections=limits, limits=Limits(body_seconds=0.3)
    )
    with running(settings) as client:
        yield client


def test_a_connection_without_a_call_is_ended(short):
    with RawHttp2(short.addresses.grpc) as silent:
        kinds = [kind for kind, *_ in silent.frames()]
    assert kinds[-1] == GOAWAY


def test_a_call_without_a_message_is_given_up(short):
    before = counted(short, "body_seconds")
    with RawHttp2(short.addresses.grpc) as connection:
        connection.call(PREDICT)
        until(lambda: counted(short, "body_seconds") == before + 1)


@pytest.mark.parametrize("pongs", [True, False])
def test_an_answer_that_nobody_reads_is_given_up(short, pongs):
    before = counted(short, "unread_seconds")
    request = predict_request(x=np.ones(3, np.float32)).SerializeToString()
    with RawHttp2(short.addresses.grpc, window=0, pongs=pongs) as connection:
        connection.call(PREDICT)
        connection.message(request)
        kinds = [kind for kind, *_ in connection.frames()]
    # The call does not keep the connection alive anymore.
    assert RESET in kinds
    assert GOAWAY in kinds
    assert counted(short, "unread_seconds") == before + 1


def test_a_stream_that_nobody_reads_is_given_up(short):
    before = counted(short, "unread_seconds")
    texts = {"text": np.array(b"5", object), "max_new_tokens": np.int32(20)}
    request = predict_request(name="counting", **texts).SerializeToString()
    with RawHttp2(short.addresses.grpc, window=0) as connection:
        connection.call(f"/{SERVICE}/{STREAMED}")
        connection.message(request)
        until(lambda: counted(short, "unread_seconds") == before + 1)
        until(lambda: in_flight(short, 0))


def metadata_of(size):
    """A call's metadata, as much as HTTP/2 counts: 32 bytes a pair more than texts."""
    return [("x", "a" * (size - 33))]


def test_metadata_beyond_the_limit(short):
    request = predict_request(x=np.ones(1, np.float32))
    short.prediction.Predict(request, 30.0, metadata=metadata_of(2**14 - 2000))
    with pytest.raises(grpc.RpcError) as caught:
        short.prediction.Predict(request, 30.0, metadata=metadata_of(2**14 + 1))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_calls_beyond_the_limit_of_a_connection_wait(short):
    with RawHttp2(short.addresses.grpc) as connection:
        settings = next(payload for kind, *_, payload in connection.frames())
    pairs = dict(struct.iter_unpack(">HI", settings))
    assert pairs[3] == 2  # SETTINGS_MAX_CONCURRENT_STREAMS: a tenth of all
