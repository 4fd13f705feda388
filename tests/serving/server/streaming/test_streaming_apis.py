"""Texts that are sent while they are written, over both doors of a server."""

import asyncio
import gzip
import http.client
import json
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import grpc
import numpy as np
import pytest
from tensorflow_serving.apis import predict_pb2

from tests.serving.server.conftest import SECRET, running, settings_for
from tests.serving.server.sample_models.counting_model import save_counting
from tests.serving.server.streaming.gated_stream import PATIENCE, Gate
from tests.serving.server.test_fault_tolerance import until
from transbeam.serving.base.stream_events import StreamPart
from transbeam.serving.server.configuration.limits import Limits
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.models.batching.batch_queue import BatchingParameters
from transbeam.serving.server.models.catalog import Catalog, ModelSettings
from transbeam.serving.server.models.loaded_version import Loaded
from transbeam.serving.server.monitoring.metrics import PATH as METRICS
from transbeam.serving.server.monitoring.metrics import Metrics
from transbeam.serving.server.protocol.rest_paths import ModelTarget
from transbeam.serving.server.protocol.tensor_proto import to_array, to_proto
from transbeam.serving.server.request_handling.service import Service
from transbeam.serving.server.rest_api.server_sent_events import event
from transbeam.serving.server.streaming.stream_requests import read_stream

NAME = "counting"
STREAM = f"/v1/models/{NAME}:stream"
BODY = b'{"text": "3", "max_new_tokens": 3}'
COUNTED = b"""data: {"text": " 4", "token_id": 4}

data: {"text": " 5", "token_id": 5}

data: {"text": " 6", "token_id": 6}

event: done
data: {"generated_text": " 4 5 6", "num_tokens": 3, "finished": false, \
"truncated": false}

"""


@pytest.fixture(scope="module")
def gate():
    """A gate for the calls of streaming models."""
    gate, run = Gate(), Loaded._run

    def through(self, name, inputs):
        if name.startswith("stream_"):
            gate(name, len(next(iter(inputs.values()))))
        return run(self, name, inputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loaded, "_run", through)
        yield gate


@pytest.fixture
def held(gate):
    """The same, with each step held."""
    gate.close()
    yield gate
    gate.open()


@pytest.fixture(scope="module")
def counting(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / NAME
    save_counting(folder / "1")
    return folder


@pytest.fixture(scope="module")
def server(gate, counting, half_plus_two):
    models = (
        ModelSettings(NAME, counting, labels={"stable": 1}),
        ModelSettings(half_plus_two.name, half_plus_two),
    )
    with running(ServerSettings(models=models, port=0, rest_port=0)) as client:
        yield client


@contextmanager
def sent(client, text, **wishes):
    """A connection over which a text was asked for."""
    connection = http.client.HTTPConnection(client.host, timeout=PATIENCE)
    try:
        connection.request("POST", STREAM, json.dumps({"text": text, **wishes}))
        yield connection
    finally:
        connection.close()


@contextmanager
def opened(client, text, **wishes):
    """An answer that is still coming."""
    with (
        sent(client, text, **wishes) as connection,
        connection.getresponse() as response,
    ):
        assert response.status == 200, response.read()
        yield response


def following(response):
    """The next event, and what it is called."""
    lines = []
    while (line := response.readline()) not in (b"\n", b""):
        lines.append(line.decode())
    name = "".join(lines[:-1]).removeprefix("event: ").strip()
    return name, json.loads(lines[-1].removeprefix("data: "))


def events(body):
    found = []
    for block in body.decode().removesuffix("\n\n").split("\n\n"):
        *names, data = block.split("\n")
        name = names[0].removeprefix("event: ") if names else ""
        found.append((name, json.loads(data.removeprefix("data: "))))
    return found


def streamed(client, text, **wishes):
    """All events of a text."""
    status, _, body = client.send(
        "POST", STREAM, json.dumps({"text": text, **wishes}).encode()
    )
    assert status == 200, body
    return events(body)


@contextmanager
def asked(client, text, version=None, label=None, name=NAME, metadata=(), **wishes):
    """The responses of gRPC."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    if version is not None:
        request.model_spec.version.value = version
    if label is not None:
        request.model_spec.version_label = label
    request.inputs["text"].CopyFrom(to_proto(np.array([text.encode()], object)))
    for key, value in wishes.items():
        if not isinstance(value, np.ndarray):
            value = np.array(value, np.int32)
        request.inputs[key].CopyFrom(to_proto(value))
    with grpc.insecure_channel(client.addresses.grpc) as channel:
        method = channel.unary_stream(
            "/tensorflow.serving.PredictionService/PredictStreamed",
            request_serializer=predict_pb2.PredictRequest.SerializeToString,
            response_deserializer=predict_pb2.PredictResponse.FromString,
        )
        yield method(request, PATIENCE, metadata=list(metadata))


def plain(response):
    """The outputs of a response as numbers and texts."""
    found = {}
    for name, proto in response.outputs.items():
        assert not proto.tensor_shape.dim
        assert not proto.tensor_content  # clients read the fields
        value = to_array(name, proto).item()
        found[name] = value.decode() if isinstance(value, bytes) else value
    return found


def refused(call):
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    return caught.value.code().name, caught.value.details()


def counts(client, status="OK"):
    """Number of requests with this status."""
    page = client.send("GET", METRICS)[2].decode()
    labels = re.escape(f'request_count{{model_name="{NAME}",status="{status}"}} ')
    found = re.search(f"{labels}([0-9.]+)", page)
    return float(found.group(1)) if found else 0.0


def texts_of(found):
    return [told["text"] for name, told in found if not name]


def test_the_bytes_of_a_stream(server):
    status, headers, found = server.send("POST", STREAM, BODY)
    assert (status, found) == (200, COUNTED)
    del headers["date"], headers["x-request-id"]
    assert headers == {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
        "transfer-encoding": "chunked",
    }


def test_an_event_is_one_line_whatever_is_in_it():
    data = r'{"text": "a\nb\r\"é' + "\u2028" + '", "token_id": 1}'
    assert event(StreamPart('a\nb\r"é\u2028', 1)) == f"data: {data}\n\n".encode()


def test_parts_are_sent_when_they_are_written(server, held):
    before = len(held.steps)
    with opened(server, "3", max_new_tokens=3) as response:
        assert following(response) == ("", {"text": " 4", "token_id": 4})
        held.let()
        assert following(response) == ("", {"text": " 5", "token_id": 5})
        held.let()
        assert following(response) == ("", {"text": " 6", "token_id": 6})
        assert following(response)[0] == "done"
        assert response.read() == b""
    assert len(held.steps) - before == 2


def test_responses_of_grpc(server, held):
    with asked(server, "3", max_new_tokens=[3]) as call:
        assert plain(next(call)) == {"text": " 4", "token_id": 4}
        held.open()
        assert [plain(response) for response in call] == [
            {"text": " 5", "token_id": 5},
            {"text": " 6", "token_id": 6},
            {
                "generated_text": " 4 5 6",
                "num_tokens": 3,
                "finished": False,
                "truncated": False,
            },
        ]
        assert call.code() is grpc.StatusCode.OK


@pytest.mark.parametrize(
    ("text", "wishes", "said", "finished"),
    [
        ("100", {}, " 101 102 103 104 105", False),
        ("100", {"max_new_tokens": 0}, " 101 102 103 104 105", False),
        ("7", {}, " 8 9 10", True),
        ("100", {"stop": " 103"}, " 101 102", True),
        ("100", {"stop": ["never", "3", "103 104"]}, " 101 102 10", True),
        ("100", {"stop": "104 106"}, " 101 102 103 104 105", False),
        ("100", {"stop": " 101"}, "", True),
        ("99990", {"max_new_tokens": 1}, " 99991", False),
    ],
)
def test_a_text_is_its_parts(server, text, wishes, said, finished):
    *parts, (name, whole) = streamed(server, text, **wishes)
    assert "".join(texts_of(parts)) == whole["generated_text"] == said
    assert name == "done"
    assert whole["num_tokens"] == len(parts)
    assert whole["finished"] == finished
    if "stop" in wishes:
        stops = [stop.encode() for stop in np.atleast_1d(wishes["stop"])]
        wishes = {"stop": np.array(stops, object)}
    with asked(server, text, **wishes) as call:
        *_, last = map(plain, call)
    assert last == whole


@pytest.mark.parametrize(
    "path", [f"{NAME}/versions/1:stream", f"{NAME}/labels/stable:stream"]
)
def test_versions_and_labels(server, path):
    assert server.send("POST", f"/v1/models/{path}", BODY)[::2] == (200, COUNTED)


def test_versions_and_labels_over_grpc(server):
    for spec in ({"version": 1}, {"label": "stable"}):
        with asked(server, "7", **spec) as call:
            responses = list(call)
        assert plain(responses[-1])["generated_text"] == " 8 9 10"
        for response in responses:
            assert response.model_spec.name == NAME
            assert response.model_spec.version.value == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (NAME, b'{"text": "x"}', 400, "x"),
        (NAME, b'{"text": "12"}', 400, "unlucky"),
        (NAME, b'{"texts": "1"}', 400, "there is no input 'texts'; expected some of "),
        (NAME, b'{"text": "1"', 400, "JSON Parse error: Missing a comma or '}'"),
        (NAME, b"", 400, "JSON Parse error: The document is empty"),
        (NAME, b'{"text": ["1"]}', 400, "Input text has the shape [1, 1]"),
        (NAME, b"{%s}" % (b" " * 2**24), 413, "larger than the 16,777,216 bytes"),
        (f"{NAME}/versions/2", b'{"text": "1"}', 404, f"Specific({NAME}, 2)"),
        (f"{NAME}/labels/x", b'{"text": "1"}', 400, "Unrecognized servable version l"),
        ("foo", b'{"text": "1"}', 404, "Servable not found for request: Latest(foo)"),
        (
            "half_plus_two",
            b'{"text": "1"}',
            400,
            "the model cannot be streamed: it has no signature 'stream_begin'",
        ),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_refused_before_it_begins(server, path, body, status, message):
    answer = server.send("POST", f"/v1/models/{path}:stream", body)
    assert answer[0] == status
    assert answer[1]["content-type"] == "application/json"
    assert message in json.loads(answer[2])["error"]
    assert texts_of(streamed(server, "7")) == [" 8", " 9", " 10"]


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        ({"text": "x"}, "INVALID_ARGUMENT", "x"),
        ({"text": "12"}, "INVALID_ARGUMENT", "unlucky"),
        ({"text": "1", "n": 2}, "INVALID_ARGUMENT", "there is no input 'n'; expected"),
        ({"text": "1", "seed": [1, 2]}, "INVALID_ARGUMENT", "seed: expected one value"),
        (
            {"text": "1", "seed": np.array([b"1"], object)},
            "INVALID_ARGUMENT",
            "Input seed: Expects arg[",
        ),
        ({"text": "1", "version": 2}, "NOT_FOUND", f"Specific({NAME}, 2)"),
        ({"text": "1", "label": "x"}, "INVALID_ARGUMENT", "Unrecognized servable ver"),
        ({"text": "1", "name": "foo"}, "NOT_FOUND", "Latest(foo)"),
        (
            {"text": "1", "name": "half_plus_two"},
            "FAILED_PRECONDITION",
            "the model cannot be streamed: it has no signature 'stream_begin'",
        ),
    ],
    ids=str,
)
def test_what_is_refused_over_grpc(server, request_, code, message):
    with asked(server, **request_) as call:
        found, details = refused(call)
    assert found == code
    assert message in details


def test_a_look_is_no_stream(server):
    status, _, body = server.send("GET", STREAM)
    assert status == 400
    assert b"Malformed request" in body


def test_what_fails_amid_a_text(server):
    before = counts(server, "INVALID_ARGUMENT")
    first, (name, told) = streamed(server, "11")
    assert first == ("", {"text": " 12", "token_id": 12})
    assert name == "error"
    assert list(told) == ["error"]
    assert "unlucky" in told["error"]
    with asked(server, "11") as call:
        assert plain(next(call)) == {"text": " 12", "token_id": 12}
        code, details = refused(call)
    assert code == "INVALID_ARGUMENT"
    assert "unlucky" in details
    assert counts(server, "INVALID_ARGUMENT") == before + 2
    assert texts_of(streamed(server, "7")) == [" 8", " 9", " 10"]


def test_a_bug_amid_a_text_is_not_told_to_clients(server, monkeypatch, caplog):
    def broken(part):
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("transbeam.serving.server.rest_api.app.event", broken)
    [(name, told)] = streamed(server, "7")
    assert (name, told) == ("error", {"error": "Internal error; see the server's log"})
    assert "of ours" in caplog.text


def test_a_body_in_gzip(server):
    body, headers = gzip.compress(BODY), {"Content-Encoding": "gzip"}
    assert server.send("POST", STREAM, body, headers)[::2] == (200, COUNTED)


@pytest.mark.parametrize("door", ["REST", "gRPC"])
def test_who_goes_away_frees_the_row_and_hurts_nobody(server, held, door):
    before = counts(server, "CANCELLED")
    with sent(server, "100", max_new_tokens=9) as neighbour:
        with (sent if door == "REST" else asked)(server, "200") as leaving:
            until(lambda: in_flight(server) == 2)
            held.let_until(lambda rows: rows == 2)
            if door == "REST":
                following(leaving.getresponse())
            else:
                next(leaving)
                leaving.cancel()
        until(lambda: counts(server, "CANCELLED") == before + 1)
        held.open()
        *_, (name, whole) = events(neighbour.getresponse().read())
    numbers = "".join(f" {number}" for number in range(101, 110))
    assert (name, whole["generated_text"]) == ("done", numbers)
    assert held.steps[-1] == 1
    assert in_flight(server) == 0
    assert counts(server, "CANCELLED") == before + 1


def in_flight(client):
    page = client.send("GET", METRICS)[2].decode()
    return float(re.search(r"transbeam_requests_in_flight ([0-9.]+)", page).group(1))


def test_who_goes_away_before_the_first_token(server, held):
    before, steps = counts(server, "CANCELLED"), len(held.steps)
    with opened(server, "100", max_new_tokens=9) as response:
        following(response)
        held.wait()
        with sent(server, "200"), asked(server, "300") as call:
            until(lambda: in_flight(server) == 3)
            call.cancel()
        until(lambda: counts(server, "CANCELLED") == before + 2)
        held.open()
        assert events(response.read())[-1][0] == "done"
    assert in_flight(server) == 0
    assert held.steps[steps:] == [1] * 8


def test_who_goes_away_while_nothing_is_waited_for(counting):
    metrics = Metrics()

    def load(name, folder):
        return Loaded(folder, BatchingParameters(), 30.0, lambda timing: None)

    catalog = Catalog(load)
    catalog.configure([ModelSettings(NAME, counting)])
    service = Service(catalog, metrics)

    async def read(version, signature):
        return read_stream(BODY, signature)

    async def leave():
        parts = service.stream(ModelTarget(NAME), "REST", read)
        assert await anext(parts) == StreamPart(" 4", 4)
        await parts.aclose()

    asyncio.run(leave())
    catalog.close()
    count = f'request_count{{model_name="{NAME}",status="CANCELLED"}} 1.0'
    assert count in metrics.page().decode()


def test_streams_are_counted(server):
    before = counts(server)
    streamed(server, "7")
    with asked(server, "7") as call:
        list(call)
    assert counts(server) == before + 2
    page = server.send("GET", METRICS)[2].decode()
    for entrypoint in ("REST", "GRPC"):
        labels = f'API="Stream",entrypoint="{entrypoint}",model_name="{NAME}"'
        assert f"request_latency_count{{{labels}}}" in page
    refusals = counts(server, "INVALID_ARGUMENT")
    server.send("POST", STREAM, b'{"text": "x"}')
    assert counts(server, "INVALID_ARGUMENT") == refusals + 1


def test_tokens_are_counted(server):
    def sample(name):
        page = server.send("GET", METRICS)[2].decode()
        line = f'transbeam_stream_{name}{{model_name="{NAME}"}} '
        found = [text for text in page.splitlines() if text.startswith(line)]
        return float(found[0].removeprefix(line)) if found else 0.0

    names = [
        "tokens_total",
        "first_token_latency_count",
        "step_latency_count",
        "rows_sum",
    ]
    before = {name: sample(name) for name in names}
    tokens = len(streamed(server, "7")) - 1  # the last tells the whole
    grown = {name: sample(name) - before[name] for name in names}
    assert tokens > 1
    assert list(grown.values()) == [tokens, 1, tokens - 1, tokens - 1]


def test_a_body_that_is_too_large_is_counted(server):
    refusals = counts(server, "INVALID_ARGUMENT")
    assert server.send("POST", STREAM, b" " * (2**24 + 1))[0] == 413
    assert counts(server, "INVALID_ARGUMENT") == refusals + 1


def test_many_at_once(server, gate):
    def ask(number):
        text = str(1000 * number)
        if number % 2:
            return streamed(server, text, max_new_tokens=9)[-1][1]
        with asked(server, text, max_new_tokens=9) as call:
            return plain(list(call)[-1])

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(1, 17)))
    for number, whole in enumerate(found, start=1):
        numbers = range(1000 * number + 1, 1000 * number + 10)
        assert whole["generated_text"] == "".join(f" {n}" for n in numbers)
        assert whole["num_tokens"] == 9


def test_other_questions_are_answered_meanwhile(server, held):
    with opened(server, "100") as response:
        following(response)
        held.wait()
        body = {"instances": [1.0]}
        assert server.post(f"{NAME}:predict", body) == (200, {"predictions": [2.0]})
        answer = (200, {"predictions": [2.5]})
        assert server.post("half_plus_two:predict", body) == answer
        held.open()
        assert events(response.read())[-1][0] == "done"


def test_who_does_not_show_the_token(counting):
    bearer = "Bearer secret"
    with running(settings_for(counting, tokens=SECRET, cors=True)) as client:
        for headers in ({}, {"Authorization": "Bearer secre"}):
            status, _, answer = client.send("POST", STREAM, BODY, headers)
            assert status == 401
            assert b"Authorization: Bearer TOKEN" in answer
        status, headers, found = client.send(
            "POST", STREAM, BODY, {"Authorization": bearer}
        )
        assert (status, found) == (200, COUNTED)
        assert headers["access-control-allow-origin"] == "*"
        with asked(client, "7") as call:
            assert refused(call)[0] == "UNAUTHENTICATED"
        with asked(client, "7", metadata=[("authorization", bearer)]) as call:
            assert plain(list(call)[-1])["generated_text"] == " 8 9 10"


def test_a_token_that_takes_too_long(counting, held):
    limits = Limits(answer_seconds=1.0)
    message = "Timed out: no answer within 1 s"
    with running(settings_for(counting, limits=limits)) as client:
        with opened(client, "100") as response, asked(client, "200") as waiting:
            following(response)
            assert following(response) == ("error", {"error": message})
            assert response.read() == b""
            assert refused(waiting) == ("DEADLINE_EXCEEDED", message)
        assert counts(client, "DEADLINE_EXCEEDED") == 2
        held.open()
        assert texts_of(streamed(client, "7")) == [" 8", " 9", " 10"]


def test_too_many_are_refused_and_then_no_more(counting, held):
    batching = BatchingParameters(max_batch_size=1, max_enqueued_batches=1)
    with running(settings_for(counting, batching=batching)) as client:
        with opened(client, "100") as first, ThreadPoolExecutor(1) as pool:
            following(first)
            held.wait()
            second = pool.submit(streamed, client, "7")
            until(lambda: in_flight(client) == 2)
            status, _, body = client.send("POST", STREAM, b'{"text": "7"}')
            assert status == 429
            assert b"1 texts wait to be written; expected at most 1." in body
            with asked(client, "7") as call:
                assert refused(call)[0] == "RESOURCE_EXHAUSTED"
            held.open()
            assert texts_of(second.result(PATIENCE)) == [" 8", " 9", " 10"]
            assert events(first.read())[-1][0] == "done"
        assert texts_of(streamed(client, "7")) == [" 8", " 9", " 10"]


def test_a_version_is_let_go_after_its_last_text(counting, tmp_path, held):
    folder = tmp_path / NAME
    shutil.copytree(counting / "1", folder / "1")
    before = stream_threads()
    with running(settings_for(folder, poll_seconds=0.05)) as client:
        path = f"/v1/models/{NAME}/versions"
        with opened(client, "100", max_new_tokens=9) as response:
            following(response)
            held.wait()
            shutil.copytree(counting / "1", tmp_path / "coming")
            (tmp_path / "coming").rename(folder / "2")
            until(lambda: "UNLOADING" in str(client.get(f"{path}/1")))
            body = b'{"text": "7"}'
            assert client.send("POST", f"{path}/1:stream", body)[0] == 404
            held.let()
            assert "UNLOADING" in str(client.get(f"{path}/1"))
            held.open()
            assert texts_of(streamed(client, "7")) == [" 8", " 9", " 10"]
            *_, (name, whole) = events(response.read())
        assert (name, whole["num_tokens"]) == ("done", 9)
        until(lambda: "END" in str(client.get(f"{path}/1")))
    assert stream_threads() == before


def stream_threads():
    return {thread for thread in threading.enumerate() if thread.name == "stream"}


@pytest.mark.parametrize("patience", [30.0, 1.0])
def test_a_server_that_stops_waits_for_its_texts_but_not_forever(
    counting, held, patience
):
    with ExitStack() as stack:
        settings = settings_for(counting, drain_seconds=patience)
        client = stack.enter_context(running(settings))
        with opened(client, "100", max_new_tokens=9) as response:
            following(response)
            held.wait()
            stopping = threading.Thread(target=stack.close)
            stopping.start()
            until(lambda: not listens(client))
            if patience > 1:
                held.open()
            lines = list(iter(response.readline, b""))
            assert (b"event: done\n" in lines) == (patience > 1)
            held.open()
            stopping.join(PATIENCE)
            assert not stopping.is_alive()


def listens(client):
    try:
        return client.send("GET", "/livez")[0] == 200
    except OSError:
        return False
