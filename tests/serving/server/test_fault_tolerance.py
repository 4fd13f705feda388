"""Faults around a server do not affect good requests."""

import json
import os
import shutil
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import numpy as np
import pytest

from tests.serving.server.conftest import NAME, SECRET, Client, running, settings_for
from tests.serving.server.grpc_api.test_services import predict_request
from tests.serving.server.sample_models.half_plus_two_model import Held, save_half_plus
from transbeam.serving.server.background_server import in_background
from transbeam.serving.server.base.auth import AccessTokens
from transbeam.serving.server.configuration.limits import Limits
from transbeam.serving.server.models.batching.batch_queue import BatchingParameters
from transbeam.serving.server.models.versions import Model
from transbeam.serving.server.monitoring import metrics

PREDICT = f"{NAME}:predict"
GOOD = {"instances": [1.0]}
ANSWER = (200, {"predictions": [2.5]})


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def raw(client, head, body=b""):
    """A connection that has sent so much."""
    host, port = client.host.split(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.sendall(head.replace(b"\n", b"\r\n") + b"\r\n\r\n" + body)
    return connection


HEAD = b"POST /v1/models/%s:predict HTTP/1.1\nHost: x" % NAME.encode()


def test_a_poisoned_request_fails_alone(half_plus_two):
    # They wait for each other: all four are of one batch.
    batching = BatchingParameters(max_batch_size=4, batch_timeout_micros=20_000_000)
    texts = ["a", "poison", "abc", "ab"]
    bodies = [{"signature_name": "rows", "instances": [text]} for text in texts]
    settings = settings_for(half_plus_two, batching=batching)
    with running(settings) as client, ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda body: client.post(PREDICT, body), bodies))
    assert [status for status, _ in found] == [200, 400, 200, 200]
    lengths = [found[n][1]["predictions"][0]["length"] for n in (0, 2, 3)]
    assert lengths == [1, 3, 2]
    assert "poison" in found[1][1]["error"]


def test_a_slow_client_keeps_nobody_waiting(half_plus_two):
    limits = Limits(body_seconds=1.0)
    with running(settings_for(half_plus_two, limits=limits)) as client:
        head = HEAD + b"\nContent-Length: 100"
        with raw(client, head, b'{"inst') as connection:
            assert client.post(PREDICT, GOOD) == ANSWER
            answer = connection.recv(2**16)
            while b"}" not in answer:
                answer += connection.recv(2**16)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"did not come within 1 s" in answer
        assert client.post(PREDICT, GOOD) == ANSWER


def cancelled(client):
    """Number of canceled requests."""
    page = client.send("GET", metrics.PATH)[2].decode()
    assert 'status="INTERNAL"' not in page
    label = f'request_count{{model_name="{NAME}",status="CANCELLED"}} '
    return int(float(page.partition(label)[2].partition("\n")[0] or 0))


@pytest.mark.parametrize("body", [b'{"instances": [1', b'{"instances": [1.0]}'])
def test_a_client_that_goes_away(server, body):
    before = cancelled(server)
    for _ in range(20):
        raw(server, HEAD + b"\nContent-Length: 20", body).close()
    assert server.post(PREDICT, GOOD) == ANSWER
    if len(body) < 20:  # a whole request may be answered before anybody knows
        until(lambda: cancelled(server) == before + 20)


def in_flight(client, count):
    page = client.send("GET", metrics.PATH)[2].decode()
    return f"in_flight {count}.0\n" in page


@pytest.fixture
def held(tmp_path):
    """Many questions that are answered when they are let."""
    folder = tmp_path / "held"
    folder.mkdir()
    questions = [Held(folder / str(number)) for number in range(20)]
    yield questions
    for question in questions:
        question.let()


def test_who_goes_away_while_waiting_is_not_worked_for(half_plus_two, held):
    def sent(question):
        body = json.dumps(question.body).encode()
        return raw(client, HEAD + b"\nContent-Length: %d" % len(body), body)

    batching = BatchingParameters(num_batch_threads=1, max_batch_size=1)
    with running(settings_for(half_plus_two, batching=batching)) as client:
        first, *others = held
        connections = [sent(first)]
        until(lambda: first.is_run)
        connections += map(sent, others)
        until(lambda: in_flight(client, 20))
        for connection in connections:
            connection.close()
        until(lambda: cancelled(client) == 20)
        first.let()
        assert client.post(PREDICT, GOOD) == ANSWER
        assert not any(question.is_run for question in others)


def test_who_goes_away_over_grpc_is_not_worked_for(half_plus_two, held):
    def sent(question):
        request = predict_request(signature="held", **question.inputs)
        return client.prediction.Predict.future(request, 60.0)

    batching = BatchingParameters(num_batch_threads=1, max_batch_size=1)
    with running(settings_for(half_plus_two, batching=batching)) as client:
        first, *others = held
        asked = [sent(first)]
        until(lambda: first.is_run)
        asked += map(sent, others)
        until(lambda: in_flight(client, 20))
        for answer in asked:
            answer.cancel()
        until(lambda: cancelled(client) == 20)
        first.let()
        answer = client.prediction.Predict(predict_request(), 60.0)
        assert list(answer.outputs["y"].float_val) == [3.0]
        assert not any(question.is_run for question in others)


METRICS = "/monitoring/prometheus/metrics"


@pytest.mark.parametrize(
    "head",
    [
        b"POST /v1/models/x:predict HTTP/1.1\nHost: x\nContent-Length: -5",
        b"POST /v1/models/x:predict HTTP/1.1\nHost: x\nContent-Length: many",
        b"POST /v1/models/x:predict HTTP/9.9\nHost: x",
        b"\x00\xff\xfe nonsense",
        b"POST " + b"/" * 100_000 + b" HTTP/1.1\nHost: x",
    ],
    ids=["negative length", "no number", "version", "nonsense", "long path"],
)
def test_what_is_no_http(server, head):
    with raw(server, head) as connection:
        answer = connection.recv(2**16)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert server.post(PREDICT, GOOD) == ANSWER


def test_a_full_queue_refuses_and_recovers(half_plus_two, held):
    batching = BatchingParameters(
        max_batch_size=1, max_enqueued_batches=2, num_batch_threads=1
    )
    settings = settings_for(half_plus_two, batching=batching)
    with running(settings) as client, ThreadPoolExecutor(8) as pool:
        first, *others = held[:8]
        asked = [pool.submit(client.post, PREDICT, first.body)]
        until(lambda: first.is_run)
        asked += [pool.submit(client.post, PREDICT, other.body) for other in others]
        # One runs and two wait; the others are refused at once.
        until(lambda: sum(answer.done() for answer in asked) == 5)
        refused = [answer.result() for answer in asked if answer.done()]
        for question in held:
            question.let()
        message = "The batch scheduling queue to which this task was submitted is full"
        for status, answer in refused:
            assert status == 429
            assert message in answer["error"]
        for question, answer in zip(held, asked, strict=False):
            assert answer.result() in [(200, question.answer), *refused]
        assert sum(answer.result()[0] == 200 for answer in asked) == 3
        assert client.post(PREDICT, GOOD) == ANSWER


def test_while_one_door_finishes_the_other_lets_nobody_in(half_plus_two, held):
    question = held[0]
    with ThreadPoolExecutor(2) as pool, ExitStack() as server:
        addresses = server.enter_context(in_background(settings_for(half_plus_two)))
        client = Client(addresses)
        answer = pool.submit(client.post, PREDICT, question.body)
        until(lambda: question.is_run)
        leaving = pool.submit(server.close)

        def is_refused():
            try:
                client.prediction.Predict(predict_request(x=np.ones(1, "f4")), 30.0)
            except grpc.RpcError as error:
                return error.code() is grpc.StatusCode.UNAVAILABLE
            return False

        until(is_refused)
        assert not answer.done()
        question.let()
        assert answer.result() == (200, question.answer)
        leaving.result()
        client.close()


def test_an_answer_that_takes_too_long(half_plus_two, held):
    # What runs on keeps both threads from what comes then.
    # tensorflow/serving: model_servers/http_server.cc:58 kDeadlineExceeded
    batching = BatchingParameters(num_batch_threads=2, max_batch_size=1)
    limits = Limits(answer_seconds=1.0)
    settings = settings_for(half_plus_two, limits=limits, batching=batching)
    first, second = held[:2]
    with (
        running(settings) as client,
        ThreadPoolExecutor(1) as pool,
        ExitStack() as in_the_end,
    ):
        in_the_end.callback(second.let)
        in_the_end.callback(first.let)
        asked = pool.submit(client.post, PREDICT, first.body)
        until(lambda: first.is_run)
        request = predict_request(signature="held", **second.inputs)
        with pytest.raises(grpc.RpcError) as caught:
            client.prediction.Predict(request, 30.0)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        status, answer = asked.result()
        assert status == 504
        assert "no answer within 1 s" in answer["error"]
        assert client.post(PREDICT, GOOD) == ANSWER


def test_who_gives_up_is_not_worked_for(half_plus_two, held):
    # The only thread would be held for the server's half minute.
    batching = BatchingParameters(num_batch_threads=1, max_batch_size=1)
    question = held[0]
    with running(settings_for(half_plus_two, batching=batching)) as client:
        request = predict_request(signature="held", **question.inputs)
        with pytest.raises(grpc.RpcError) as caught:
            client.prediction.Predict(request, 0.5)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        request = predict_request(x=np.ones(1, "f4"))
        client.prediction.Predict(request, 10.0)
        assert question.is_run


def test_more_than_is_read_is_refused_at_both_doors(half_plus_two):
    limits = Limits(text_bytes=6, rows=3)

    def predict(*texts):
        body = {"signature_name": "rows", "instances": [*texts]}
        values = np.array([text.encode() for text in texts], object)
        request = predict_request(signature="rows", text=values)
        status = client.post(PREDICT, body)[0]
        try:
            client.prediction.Predict(request, 30.0)
        except grpc.RpcError as error:
            return status, error.code()
        return status, grpc.StatusCode.OK

    refused = 413, grpc.StatusCode.INVALID_ARGUMENT
    with running(settings_for(half_plus_two, limits=limits)) as client:
        assert predict("abc", "def") == (200, grpc.StatusCode.OK)
        assert predict("abc", "def", "g") == refused
        assert predict("", "", "") == (200, grpc.StatusCode.OK)
        assert predict("", "", "", "") == refused
        page = client.send("GET", metrics.PATH)[2].decode()
    for reason in ("text_bytes", "rows"):
        assert f'transbeam_refused_total{{reason="{reason}"}} 2.0\n' in page


def test_a_damaged_version_does_not_take_over(tmp_path):
    folder = tmp_path / NAME
    save_half_plus(folder / "1")
    with running(settings_for(folder, poll_seconds=0.05)) as client:
        damaged = tmp_path / "damaged"
        shutil.copytree(folder / "1", damaged)
        (damaged / "saved_model.pb").write_bytes(b"\x0a\xff\xff nonsense")
        damaged.rename(folder / "2")
        path = f"/v1/models/{NAME}/versions/2"
        until(lambda: "END" in str(client.get(path)))
        [status] = client.get(path)[1]["model_version_status"]
        assert status["status"]["error_code"] != "OK"
        assert status["status"]["error_message"]
        assert client.post(PREDICT, GOOD) == ANSWER
        # Mended, it takes over at the next look.
        save_half_plus(tmp_path / "good", 3.0)
        shutil.copytree(tmp_path / "good", folder / "2", dirs_exist_ok=True)
        until(lambda: client.post(PREDICT, GOOD) == (200, {"predictions": [3.5]}))


def test_folders_that_vanish(tmp_path, monkeypatch):
    looks, poll = [], Model.poll
    monkeypatch.setattr(Model, "poll", lambda self: looks.append(1) or poll(self))
    folder = tmp_path / NAME
    save_half_plus(folder / "1", 2.0)
    save_half_plus(folder / "2", 3.0)
    with running(settings_for(folder, poll_seconds=0.05)) as client:
        assert client.post(PREDICT, GOOD) == (200, {"predictions": [3.5]})
        shutil.rmtree(folder / "2")
        until(lambda: client.post(PREDICT, GOOD) == ANSWER)
        shutil.rmtree(folder)
        some_later = len(looks) + 4
        until(lambda: len(looks) >= some_later)
        assert client.post(PREDICT, GOOD) == ANSWER


def test_versions_that_are_let_go_leave_no_thread_and_no_file(tmp_path):
    folder = tmp_path / NAME
    version = save_half_plus(tmp_path / "version")
    shutil.copytree(version, folder / "1")
    left = []
    with running(settings_for(folder, poll_seconds=0.02)) as client:
        path = f"/v1/models/{NAME}/versions"
        for number in range(2, 8):
            shutil.copytree(version, tmp_path / "coming")
            (tmp_path / "coming").rename(folder / str(number))
            until(lambda n=number: "END" in str(client.get(f"{path}/{n - 1}")))
            assert client.post(PREDICT, GOOD) == ANSWER
            client.prediction.Predict(predict_request(), 30.0)
            left.append((threading.active_count(), len(os.listdir("/dev/fd"))))
    threads, files = zip(*left, strict=True)
    # Some may come once; two threads of each version would be kept.
    assert max(threads[2:]) <= threads[0] + 3
    assert max(files[2:]) <= files[0] + 3


@pytest.mark.parametrize("reloads", [5, pytest.param(100, marks=pytest.mark.thorough)])
def test_reloads_under_load(tmp_path, reloads):
    folder = tmp_path / NAME
    kinds = [save_half_plus(tmp_path / f"kind{n}", 10.0 * n) for n in range(2)]
    shutil.copytree(kinds[1], folder / "1")
    stop = threading.Event()

    def ask(client, rows, seen):
        """Notes who answered, as long as it goes on."""
        while not stop.is_set():
            request = predict_request(x=np.full(rows, 2.0, np.float32))
            response = client.prediction.Predict(request, 30.0)
            version = response.model_spec.version.value
            expected = [1.0 + 10.0 * (version % 2)] * rows
            assert list(response.outputs["y"].float_val) == expected
            assert client.post(PREDICT, GOOD)[0] == 200
            seen.append(version)

    settings = settings_for(folder, poll_seconds=0.02)
    with running(settings) as client, ThreadPoolExecutor(4) as pool:
        seen = {rows: [0] for rows in (1, 2, 3, 40)}
        asking = [pool.submit(ask, client, *one) for one in seen.items()]

        def is_answered_by(number):
            assert not any(asked.done() for asked in asking), asking
            return all(versions[-1] == number for versions in seen.values())

        try:
            for number in range(2, reloads + 2):
                shutil.copytree(kinds[number % 2], tmp_path / "coming")
                (tmp_path / "coming").rename(folder / str(number))
                until(lambda number=number: is_answered_by(number))
        finally:
            stop.set()
        for asked in asking:
            asked.result(60)
    assert all(versions == sorted(versions) for versions in seen.values())


def test_who_does_not_show_the_token(half_plus_two):
    # tensorflow/serving: model_servers/http_server.cc:82 kUnauthenticated
    with running(settings_for(half_plus_two, tokens=SECRET)) as client:
        status, answer = client.post(PREDICT, GOOD)
        assert status == 401
        assert "Authorization: Bearer TOKEN" in answer["error"]
        shown = {"Authorization": "Bearer secret"}
        assert client.post(PREDICT, GOOD, **shown) == ANSWER
        assert client.post(PREDICT, GOOD, Authorization="Bearer secre")[0] == 401
        assert client.send("GET", METRICS)[0] == 401
        assert client.send("GET", "/readyz")[0] == 200
        with pytest.raises(grpc.RpcError) as caught:
            client.prediction.Predict(predict_request(), 30.0)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        metadata = [("authorization", "Bearer secret")]
        answer = client.prediction.Predict(predict_request(), 30.0, metadata=metadata)
        assert list(answer.outputs["y"].float_val) == [3.0]


@pytest.mark.parametrize("cors", [True, False])
def test_pages_of_other_origins(half_plus_two, cors):
    # tensorflow/serving: model_servers/http_server.cc:176 missing
    with running(settings_for(half_plus_two, cors=cors)) as client:
        origin = {"Origin": "https://example.org"}
        path = f"/v1/models/{PREDICT}"
        status, headers, _ = client.send("OPTIONS", path, headers=origin)
        assert (status == 200) is cors
        _, headers, _ = client.send("POST", path, json.dumps(GOOD))
        assert headers.get("access-control-allow-origin") == ("*" if cors else None)
        assert client.send("OPTIONS", path, headers={"Origin": "file://x"})[0] == 400


@pytest.mark.parametrize(
    ("tokens", "allowed"),
    [
        (AccessTokens(), "Content-Type"),
        (SECRET, "Content-Type, Authorization"),
    ],
)
def test_pages_of_other_origins_may_show_the_token(half_plus_two, tokens, allowed):
    with running(settings_for(half_plus_two, cors=True, tokens=tokens)) as client:
        origin = {"Origin": "https://example.org"}
        path = f"/v1/models/{PREDICT}"
        status, headers, _ = client.send("OPTIONS", path, headers=origin)
        assert status == 200
        assert headers["access-control-allow-headers"] == allowed
        # OpenAI's client sends further headers.
        sent = {"Access-Control-Request-Headers": "authorization,x-stainless-os"}
        for each in (path, "/openai/v1/completions"):
            status, headers, _ = client.send("OPTIONS", each, headers=origin | sent)
            assert status == 200
            is_openai = each.startswith("/openai/")
            expected = "authorization,x-stainless-os" if is_openai else allowed
            assert headers["access-control-allow-headers"] == expected
