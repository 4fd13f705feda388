"""Tokens, limits, deadlines, logs and metrics hold for OpenAI's API as elsewhere."""

import http.client
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import openai
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from tests.serving.server.conftest import SECRET
from tests.serving.server.openai_api.conftest import (
    MASKED,
    PREFIX,
    WRITER,
    opened,
)
from tests.serving.server.streaming.gated_stream import PATIENCE, Gate
from tests.serving.server.test_fault_tolerance import until
from transbeam.serving.server.configuration.limits import Limits
from transbeam.serving.server.models.catalog import LogSettings
from transbeam.serving.server.models.loaded_version import Loaded
from transbeam.serving.server.monitoring.metrics import PATH as METRICS

COMPLETION = {"model": WRITER, "prompt": "a", "max_tokens": 2, "temperature": 0}
BEARER = {"Authorization": "Bearer secret"}


@pytest.fixture(scope="module")
def writer(models):
    return [model for model in models if model.name == WRITER]


@pytest.fixture(scope="module")
def strict(writer, runs, tmp_path_factory):
    """A server with tokens, small limits and an access log."""
    log = tmp_path_factory.mktemp("log") / "access.jsonl"
    limits = Limits(text_bytes=40, rows=3, body_bytes=2**12, stop_bytes=8)
    changes = {"tokens": SECRET, "limits": limits, "access_log": log, "cors": True}
    with opened(tuple(writer), runs, **changes) as door:
        door.log = log
        yield door


@pytest.fixture(scope="module")
def gate():
    """Holds the steps of streams, or fails them."""
    gate, run = Gate(), Loaded._run

    def through(self, name, inputs):
        if name == "stream_step":
            if gate.fails:
                raise RuntimeError("broken")
            gate(name, len(next(iter(inputs.values()))))
        return run(self, name, inputs)

    gate.fails = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loaded, "_run", through)
        yield gate


@pytest.fixture(scope="module")
def gated(gate, writer, runs):
    """A server whose streams go through the gate."""
    with opened(tuple(writer), runs) as door:
        yield door


@contextmanager
def streamed(door):
    """An answer that is still coming."""
    connection = http.client.HTTPConnection(door.client.host, timeout=PATIENCE)
    body = json.dumps({**COMPLETION, "max_tokens": 50, "stream": True})
    connection.request("POST", f"{PREFIX}/completions", body)
    with closing(connection), connection.getresponse() as response:
        yield response


def sample(door, name, **labels):
    page = door.client.send("GET", METRICS, headers=BEARER)[2].decode()
    for line in page.splitlines():
        if line.startswith(name) and all(
            f'{k}="{v}"' in line for k, v in labels.items()
        ):
            return float(line.rpartition(" ")[2])
    return 0.0


@pytest.mark.parametrize(
    ("path", "body"),
    [("completions", COMPLETION), ("completions", {**COMPLETION, "stream": True})],
)
def test_a_token_is_needed(strict, path, body):
    status, answer = strict.post(path, body)
    assert status == 401
    assert answer["error"]["type"] == "authentication_error"
    assert strict.client.send("GET", f"{PREFIX}/models")[0] == 401
    assert strict.client.send("GET", f"{PREFIX}/models", headers=BEARER)[0] == 200
    status, headers, _ = strict.client.send(
        "POST", f"{PREFIX}/{path}", json.dumps(body), BEARER
    )
    assert status == 200
    assert headers["access-control-allow-origin"] == "*"


def test_the_client_sends_its_key_as_the_token(strict):
    url = f"{strict.client.addresses.rest}{PREFIX}"
    with openai.OpenAI(base_url=url, api_key="secret") as client:
        assert client.completions.create(**COMPLETION).usage.completion_tokens == 2
    with (
        openai.OpenAI(base_url=url, api_key="wrong", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError, match="requires a token"),
    ):
        client.completions.create(**COMPLETION)


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"prompt": "a" * 41}, 413, "41 bytes of text"),
        ({"prompt": "a" * 41, "stream": True}, 413, "41 bytes of text"),
        ({"prompt": ["a"] * 4}, 413, "4 rows"),
        ({"n": 4}, 413, "4 rows"),
        ({"stop": "a" * 9}, 400, "9 bytes"),
        ({"stop": "a" * 9, "stream": True}, 400, "9 bytes"),
        ({"user": "a" * 2**12}, 413, "larger than"),
    ],
)
def test_limits(strict, fields, status, words):
    found, answer = strict.post("completions", {**COMPLETION, **fields}, **BEARER)
    assert found == status, answer
    assert words in answer["error"]["message"]
    assert answer["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "completions", 404),
        ("POST", "models", 404),
        ("POST", "nothing", 404),
        ("GET", "models/nobody", 404),
        ("GET", "models/..%2f..%2fetc", 404),
        ("GET", "models/", 404),
    ],
)
def test_what_is_not_there(door, method, path, status):
    found, _, answer = door.client.send(method, f"{PREFIX}/{path}", "{}")
    assert found == status
    error = json.loads(answer)["error"]
    assert error["type"] == "invalid_request_error"


def test_requests_are_logged_and_counted(strict):
    counted = {"status": "OK", "model_name": WRITER}
    before = sample(strict, ":tensorflow:serving:request_count", **counted)
    headers = {**BEARER, "x-request-id": "the-first"}
    _, found, _ = strict.client.send(
        "POST", f"{PREFIX}/completions", json.dumps(COMPLETION), headers
    )
    assert found["x-request-id"] == "the-first"
    after = sample(strict, ":tensorflow:serving:request_count", **counted)
    assert after == before + 1
    until(lambda: "the-first" in strict.log.read_text())
    lines = map(json.loads, strict.log.read_text().splitlines())
    (line,) = [each for each in lines if each["request_id"] == "the-first"]
    assert (line["api"], line["model"], line["version"]) == ("Completions", WRITER, 1)
    assert (line["tokens"], line["signature"]) == (2, "generate")
    assert "prompt" not in strict.log.read_text()


def test_the_log_of_requests_has_a_request_once(writer, runs, tmp_path):
    """Neither the tokenization nor the scores, which are megabytes."""
    changes = {"log": LogSettings(f"{tmp_path}/log/")}
    with opened(tuple(writer), runs, **changes) as door:
        door.complete("a", max_tokens=2, logprobs=1, echo=True)
    (file,) = (tmp_path / "log").iterdir()
    (record,) = tf.data.TFRecordDataset(str(file))
    log = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log
    assert log.request.model_spec.signature_name == "generate"


def test_rows_of_which_one_is_long(door):
    prompts = [[5]] * 1000 + [[5] * 10_000]
    status, answer = door.post("completions", {**COMPLETION, "prompt": prompts})
    assert status == 413
    assert answer["error"]["param"] == "prompt"


def test_names_from_clients_make_no_series(strict):
    strict.post("completions", {**COMPLETION, "model": "made-up"}, **BEARER)
    page = strict.client.send("GET", METRICS, headers=BEARER)[2].decode()
    assert "made-up" not in page
    assert re.search(r'request_count\{model_name="",status="NOT_FOUND"\}', page)


def test_an_error_inside_a_stream(gated, gate):
    gate.fails = True
    first, error, end = gated.events("completions", {**COMPLETION, "max_tokens": 9})
    assert json.loads(first)["choices"][0]["finish_reason"] is None
    assert json.loads(error)["error"]["type"] == "server_error"
    assert "broken" in json.loads(error)["error"]["message"]
    assert end == "[DONE]"
    url = f"{gated.client.addresses.rest}{PREFIX}"
    with openai.OpenAI(base_url=url, api_key="none") as client:
        stream = client.completions.create(**COMPLETION, stream=True)
        with pytest.raises(openai.APIError, match="broken"):
            list(stream)
    gate.fails = False
    assert gated.chunks("completions", COMPLETION)


def test_parts_come_while_the_text_is_generated(gated, gate):
    gate.close()
    with streamed(gated) as response:
        assert json.loads(response.readline().removeprefix(b"data: "))["choices"]
        gate.wait()
        gate.open()
        assert response.read().endswith(b"data: [DONE]\n\n")


def test_a_client_that_leaves_ends_its_text(gated, gate):
    gate.close()
    counted = {"status": "CANCELLED", "model_name": WRITER}
    name = ":tensorflow:serving:request_count"
    before = sample(gated, name, **counted)
    with streamed(gated) as response:
        response.readline()
        gate.wait()
    gate.open()
    until(lambda: sample(gated, name, **counted) == before + 1)
    until(lambda: sample(gated, "transbeam_requests_in_flight") == 0)


def test_a_deadline(writer, runs, gate):
    gate.close()
    limits = Limits(answer_seconds=1.0)
    with opened(tuple(writer), runs, limits=limits) as door:
        body = json.dumps({**COMPLETION, "max_tokens": 9, "stream": True})
        status, _, answer = door.client.send("POST", f"{PREFIX}/completions", body)
        gate.open()
    # On a slow machine it is over before the first token.
    assert status in (200, 504)
    assert b"no answer within 1 s" in answer
    assert b'"type": "server_error"' in answer


def test_many_at_once(door):
    started = threading.Barrier(8)

    def ask(number):
        started.wait(PATIENCE)
        body = {**COMPLETION, "prompt": "a" * (number + 1), "max_tokens": 5}
        if number % 2:
            chunks = door.chunks("completions", body)
            return "".join(each["choices"][0]["text"] for each in chunks)
        return door.post("completions", body)[1]["choices"][0]["text"]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    alone = [
        door.complete("a" * (number + 1), max_tokens=5)["choices"][0]["text"]
        for number in range(8)
    ]
    assert found == alone


def test_the_other_api_s_errors_are_as_before(door):
    status, answer = door.client.post("nobody:predict", {"instances": ["a"]})
    assert status == 404
    assert isinstance(answer["error"], str)
    status, answer = door.client.post(f"{MASKED}:predict", {"instances": ["a"]})
    assert status == 200
