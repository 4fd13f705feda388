"""Connections at a server that are too many, silent, or do not read."""

import asyncio
import errno
import http.client
import json
import logging
import socket
import ssl
import time
from contextlib import ExitStack

import pytest

from tests.serving.server.certificates import make_pair
from tests.serving.server.conftest import NAME, running, settings_for
from tests.serving.server.test_fault_tolerance import HEAD, raw, until
from transbeam.serving.server.background_server import in_background
from transbeam.serving.server.connections.connection_limits import ConnectionLimits
from transbeam.serving.server.http_server.acceptor import Acceptor
from transbeam.serving.server.monitoring import metrics

PREDICT = f"{NAME}:predict"
GOOD = {"instances": [1.0]}
ANSWER = (200, {"predictions": [2.5]})


def connect(client, receive=None):
    connection = socket.socket()
    if receive is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    connection.settimeout(30)
    host, port = client.host.split(":")
    connection.connect((host, int(port)))
    return connection


def rest_of(connection):
    """Everything until the other side hangs up."""
    found = b""
    try:
        while got := connection.recv(2**16):
            found += got
    except ConnectionResetError:
        pass
    return found


def is_let_in(connection):
    connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    return connection.recv(100).startswith(b"HTTP/1.1 200 ")


def counted(client, reason):
    page = client.send("GET", metrics.PATH)[2].decode()
    label = f'transbeam_refused_total{{reason="{reason}"}} '
    return int(float(page.partition(label)[2].partition("\n")[0] or 0))


@pytest.fixture(scope="module")
def short(half_plus_two):
    """A server with little patience, which takes few connections."""
    limits = ConnectionLimits(
        head_seconds=0.2, idle_seconds=0.2, unread_seconds=0.3, connections=4
    )
    with running(settings_for(half_plus_two, connections=limits)) as client:
        until(lambda: open_connections(client) == 1)
        yield client


def open_connections(client):
    page = client.send("GET", metrics.PATH)[2].decode()
    found = page.partition("\ntransbeam_connections ")[2].partition("\n")[0]
    return float(found or "nan")  # who asks may be one too many


def test_a_head_beyond_a_limit_is_refused_before_the_token(server):
    with raw(server, HEAD + b"\nX: " + b"a" * 9000) as connection:
        answer = rest_of(connection)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert "8,192 bytes" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert counted(server, "line_bytes") >= 1


def test_silent_connections_are_ended(short):
    before = counted(short, "head_seconds")
    with connect(short) as silent, connect(short) as begun, connect(short) as idle:
        begun.sendall(b"GET /livez HTTP/1.1\r\nHo")
        idle.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert rest_of(silent) == b""
        assert rest_of(begun).startswith(b"HTTP/1.1 408 ")
        assert rest_of(idle).startswith(b"HTTP/1.1 200 ")
    assert short.post(PREDICT, GOOD) == ANSWER
    assert counted(short, "head_seconds") == before + 2


def test_connections_beyond_the_limit_are_refused(half_plus_two):
    limits = ConnectionLimits(connections=4)
    with running(settings_for(half_plus_two, connections=limits)) as client:
        # As soon as the server sees that who waited for its start is gone.
        until(lambda: open_connections(client) == 1)
        with ExitStack() as held:
            for _ in range(3):
                held.enter_context(connect(client))
            until(lambda: open_connections(client) == 4)  # with the one that asks
            # As soon as it sees that the one that asked is gone.
            until(lambda: is_let_in(held.enter_context(connect(client))))
            with connect(client) as fifth:
                answer = rest_of(fifth)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1" in answer
            assert b"the 4 connections" in answer
        until(lambda: client.send("GET", "/livez")[0] == 200)
        assert client.post(PREDICT, GOOD) == ANSWER
        assert counted(client, "connections") >= 1


def test_an_answer_that_nobody_reads_is_given_up(short):
    # More than what the system itself keeps on the way.
    body = {"signature_name": "codes", "instances": ["a" * 1_900_000]}
    body = json.dumps(body).encode()
    before = counted(short, "unread_seconds")
    head = HEAD + b"\nContent-Length: %d\r\n\r\n" % len(body)
    with connect(short, receive=4096) as connection:
        connection.sendall(head.replace(b"\n", b"\r\n").replace(b"\r\r", b"\r") + body)
        until(lambda: counted(short, "unread_seconds") == before + 1)
        until(lambda: open_connections(short) == 1)


def test_a_server_of_tls_hangs_up_on_who_agrees_on_nothing(half_plus_two, tmp_path):
    pair = make_pair(tmp_path, "good")
    limits = ConnectionLimits(head_seconds=0.2)
    settings = settings_for(
        half_plus_two,
        connections=limits,
        certificate=pair.certificate,
        key=pair.key,
    )
    context = ssl.create_default_context(cafile=str(pair.certificate))
    with ExitStack() as left:
        with in_background(settings) as addresses:
            port = int(addresses.rest.rpartition(":")[2])
            for address in (port, int(addresses.grpc.rpartition(":")[2])):
                with socket.create_connection(("127.0.0.1", address)) as silent:
                    silent.settimeout(30)
                    assert rest_of(silent) == b""
            idle = http.client.HTTPSConnection(
                "localhost", port, timeout=30, context=context
            )
            left.callback(idle.close)
            idle.request("GET", "/livez")
            assert idle.getresponse().read() == b"ok\n"
            began = time.monotonic()
        # It never answers the goodbye, for which asyncio waits half a minute.
        assert time.monotonic() - began < 5


class NoDescriptors:
    """A listening socket of a process that has no descriptor left."""

    def __init__(self, listening):
        self.listening = listening
        self.asked = 0

    def __getattr__(self, name):
        return getattr(self.listening, name)

    def accept(self):
        self.asked += 1
        raise OSError(errno.EMFILE, "Too many open files")


def test_without_descriptors_it_is_said_once(caplog, monkeypatch):
    monkeypatch.setattr(
        "transbeam.serving.server.http_server.acceptor._PAUSE_SECONDS", 0.02
    )
    reasons = []

    async def scene():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            broken = NoDescriptors(listening)
            limits = ConnectionLimits()
            acceptor = Acceptor(
                broken,
                asyncio.Protocol,
                lambda: 0,
                limits,
                reasons.append,
                None,
                backlog=100,
            )
            with socket.create_connection(listening.getsockname()):
                while len(reasons) < 5:
                    await asyncio.sleep(0.01)
            acceptor.close()
        return broken.asked

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(scene()) == len(reasons)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "ulimit -n" in said[0]
