"""A server in a process of others leaves to them what is theirs."""

import logging
import socket
import sys

import pytest

from tests.serving.server.conftest import running, settings_for
from transbeam.serving.server.connections.addresses import listen


def test_logging_and_the_streams_stay_as_they_are(half_plus_two):
    names = ("", "uvicorn", "uvicorn.error", "asyncio")
    before = [list(logging.getLogger(name).handlers) for name in names]
    streams = sys.stdout, sys.stderr
    with running(settings_for(half_plus_two)) as client:
        assert client.get("/v1/models/half_plus_two")[0] == 200
    assert [logging.getLogger(name).handlers for name in names] == before
    assert (sys.stdout, sys.stderr) == streams
    assert not sys.stderr.closed


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_answers_are_sent_at_once(host):
    # asyncio sets TCP_NODELAY only where the socket names its protocol.
    try:
        listening = listen(host, 0)
    except Exception:
        pytest.skip(f"{host} cannot be had here")
    with listening:
        assert listening.proto == socket.IPPROTO_TCP
