"""The studio's page and JSON API on a server."""

import json
import subprocess
import sys
from http.client import HTTPConnection

import jsonschema
import numpy as np
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.serving.conftest import TINY, make_run
from tests.serving.server.conftest import SECRET, running, settings_for
from tests.serving.studio.checkpoints import keep_checkpoint
from tests.serving.studio.test_head_summaries import summaries_of
from transbeam.configs.base.errors import UserError
from transbeam.serving.server.configuration.limits import Limits
from transbeam.serving.studio import schemas
from transbeam.serving.studio.comparison import comparison_schemas

API = "/studio/api"
TEXT = {"text": "returns a [MASK] of the same shape"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    made = tuple(make_run(folder / name, TINY) for name in ("one", "two"))
    keep_checkpoint(made[0], 5)
    return made


def studio_settings(runs, **changes):
    return settings_for(port=None, has_studio=True, studio_runs=runs, **changes)


@pytest.fixture(scope="module")
def studio(runs):
    with running(studio_settings(runs)) as client:
        yield client


def post(client, name, body, **headers):
    text = body if isinstance(body, bytes | str) else json.dumps(body)
    status, _, answer = client.send("POST", f"{API}/{name}", text, headers)
    return status, json.loads(answer)


def inspect(client, body, **headers):
    return post(client, "inspect", body, **headers)


@pytest.fixture(scope="module")
def inspection(studio):
    status, found = inspect(studio, {"run": "one", "texts": TEXT})
    assert status == 200
    return found


def test_runs(studio):
    status, found = studio.get(f"{API}/runs")
    assert status == 200
    jsonschema.validate(found, schemas.RUNS)
    assert [run["name"] for run in found["runs"]] == ["one", "two"]
    assert "transbeam export" in found["runs"][0].pop("why_not_served")
    assert found["runs"][0] == {
        "name": "one",
        "objective": "masked",
        "family": "encoder",
        "inputs": ["text"],
        "examples": ["returns a [MASK] of the same shape ."],
        "layers": 2,
        "heads": 2,
        "hidden_dim": 32,
        "attention": "full",
        "max_length": 32,
        "has_maps": True,
        "why_no_maps": None,
        "is_trained": True,
        "checkpoints": [5],
        "tflite": [],
        "served_as": None,
    }


def test_maps_come_as_bytes_layer_by_layer(studio, inspection):
    jsonschema.validate(inspection, schemas.INSPECTION)
    [row] = inspection["rows"]
    [group] = inspection["groups"]
    length = len(row["tokens"])
    layers = []
    for layer in group["layers"]:
        query = f"key={inspection['key']}&layer={layer['path']}"
        status, headers, body = studio.send("GET", f"{API}/attention?{query}")
        assert (status, headers["content-type"]) == (200, "application/octet-stream")
        maps = np.frombuffer(body, "<f2").reshape(layer["heads"], length, length)
        np.testing.assert_allclose(maps.sum(axis=2, dtype="f4"), 1, atol=2e-3)
        for name, values in summaries_of(maps).items():
            np.testing.assert_allclose(layer["summaries"][name], values, atol=5e-3)
        layers.append(maps)
    query = f"key={inspection['key']}&group={group['name']}"
    status, _, body = studio.send("GET", f"{API}/overview?{query}")
    assert status == 200
    assert group["small"] == [length, length]
    np.testing.assert_array_equal(
        np.frombuffer(body, "<f2").reshape(2, 2, length, length), layers
    )


def test_vectors_come_half_from_themselves(studio, inspection):
    [group] = inspection["groups"]
    query = f"key={inspection['key']}&group={group['name']}"
    status, _, body = studio.send("GET", f"{API}/flow?{query}")
    assert status == 200
    length = len(inspection["rows"][0]["tokens"])
    maps = np.frombuffer(body, "<f2").astype("f4").reshape(2, length, length)
    np.testing.assert_allclose(maps.sum(axis=2), 1, atol=2e-3)
    assert (np.diagonal(maps, axis1=1, axis2=2) >= 0.499).all()


def test_predictions_of_every_layer(studio, inspection):
    status, found = studio.get(f"{API}/predictions?key={inspection['key']}")
    assert status == 200
    jsonschema.validate(found, schemas.PREDICTIONS)
    assert found["predicts"] == "masked"
    assert len(found["layers"]) == 3
    length = len(inspection["rows"][0]["tokens"])
    assert np.shape(found["ids"]) == np.shape(found["probabilities"]) == (3, length, 5)
    # The last layer's predictions are the model's.
    assert set(found["final_ranks"][-1]) == {0}
    assert {str(x) for x in np.ravel(found["ids"])} == set(found["pieces"])


def test_stages_and_scores(studio, inspection):
    status, found = studio.get(f"{API}/stages?key={inspection['key']}")
    assert status == 200
    jsonschema.validate(found, schemas.STAGES)
    layer = inspection["groups"][0]["layers"][0]["path"]
    query = f"key={inspection['key']}&layer={layer}&head=1&query=0&attended=2"
    status, found = studio.get(f"{API}/query-key?{query}")
    assert status == 200
    jsonschema.validate(found, schemas.QUERY_KEY)
    assert len(found["products"]) == 16


def test_contributions_are_of_decoders(studio, inspection):
    query = f"key={inspection['key']}&position=1"
    status, found = studio.get(f"{API}/contributions?{query}")
    assert status == 400
    assert "decoder" in found["error"]


def test_the_same_text_is_inspected_once(studio, inspection):
    _, again = inspect(studio, {"run": "one", "texts": TEXT})
    assert again["key"] == inspection["key"]
    assert again["seconds"] < 0.05
    _, other = inspect(studio, {"run": "two", "texts": TEXT})
    assert other["key"] != inspection["key"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("", 400, "not JSON"),
        ("[" * 100_000, 400, "not JSON"),
        ({}, 400, "not of the form"),
        ({"run": "one", "texts": {"text": 3}}, 400, "not of the form"),
        ({"run": "one", "texts": TEXT, "more": 1}, 400, "not of the form"),
        ({"run": "one", "texts": TEXT, "checkpoint": "5"}, 400, "not of the form"),
        ({"run": "one", "texts": TEXT, "checkpoint": True}, 400, "not of the form"),
        ({"run": "one", "texts": TEXT, "tflite": "int8"}, 400, "not of the form"),
        ({"run": "one", "texts": TEXT, "checkpoint": 6}, 404, "it has 5"),
        ({"run": "three", "texts": TEXT}, 404, "one, two"),
        ({"run": "../one", "texts": TEXT}, 404, "no run"),
        ({"run": "one", "texts": {}}, 400, "no text"),
        ({"run": "one", "texts": {**TEXT, "second_text": ""}}, 400, "second_text"),
    ],
)
def test_bad_questions(studio, body, status, words):
    found, answer = inspect(studio, body)
    assert found == status
    assert answer.keys() == {"error"}
    assert words in answer["error"]


def test_two_models_on_one_text(studio):
    sides = {"a": {"run": "one"}, "b": {"run": "one", "checkpoint": 5}}
    status, found = post(studio, "compare", {**sides, "texts": TEXT})
    assert status == 200
    jsonschema.validate(found, comparison_schemas.COMPARISON)
    [prediction] = found["answers"]["predictions"]
    assert prediction["difference"] > 0
    a, b = (found[side]["inspection"] for side in ("a", "b"))
    question = {"run": "one", "checkpoint": 5, "texts": TEXT}
    assert inspect(studio, question)[1]["key"] == b["key"]
    small = {}
    for name, less in (("a", ""), ("b", ""), ("b", f"&less={a['key']}")):
        key = found[name]["inspection"]["key"]
        query = f"key={key}&group=attention{less}"
        status, _, body = studio.send("GET", f"{API}/overview?{query}")
        assert status == 200
        small[name + less[:5]] = np.frombuffer(body, "<f2").astype("f4")
    np.testing.assert_allclose(small["b&less"], small["b"] - small["a"], atol=1e-3)
    [group] = found["maps"]["groups"]
    length = len(a["rows"][0]["tokens"])
    heads = np.abs(small["b&less"]).reshape(2, 2, length, length).sum(axis=3) / 2
    np.testing.assert_allclose(group["layers"], heads.mean(axis=2), atol=2e-3)


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"a": "one"}, 400, "not of the form"),
        ({"c": 1}, 400, "not of the form"),
        ({"a": {"run": "one", "other": 1}}, 400, "not of the form"),
        ({"a": {"run": "one", "checkpoint": 5, "tflite": "x"}}, 400, "not of the form"),
        ({"a": {"run": "one", "tflite": "x"}}, 404, "it has none"),
        ({"b": {"run": "three"}}, 404, "one, two"),
        ({"texts": {"text": None}}, 400, "not of the form"),
        ({"texts": {"other": ""}}, 400, "two reads text"),
    ],
)
def test_bad_comparisons(studio, changes, status, words):
    question = {"a": {"run": "two"}, "b": {"run": "one"}, "texts": TEXT}
    found, answer = post(studio, "compare", question | changes)
    assert (found, answer.keys()) == (status, {"error"})
    assert words in answer["error"]


@pytest.mark.parametrize("text", ["", "\x00", "\ud83d", "<script>" * 9, "a " * 500_000])
def test_hostile_texts(studio, text):
    status, found = inspect(studio, {"run": "one", "texts": {"text": text}})
    assert status == 200
    assert len(found["rows"][0]["tokens"]) <= 32
    assert found["truncated"] == (len(text) > 32)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("attention", 400),
        ("attention?key=1&key=2&layer=3", 400),
        ("attention?key=none&layer=encoder_layer_0", 404),
        ("attention?key={key}&layer=encoder_layer_9", 404),
        ("overview?key={key}&group=cross_attention", 404),
        ("overview?key={key}", 400),
        ("flow?key={key}&group=cross_attention", 404),
        ("predictions", 400),
        ("predictions?key=none", 404),
        ("contributions?key={key}", 400),
        ("contributions?key={key}&position=x", 400),
        ("contributions?key={key}&position=1&token=1&token=2", 400),
        ("stages", 400),
        ("stages?key=none", 404),
        ("query-key?key={key}&layer=none&head=0&query=0&attended=0", 400),
        ("query-key?key={key}&layer=none&head=0&query=0", 400),
        ("overview?key={key}&group=attention&less=none", 404),
        ("nothing", 404),
        ("inspect", 404),
    ],
)
def test_maps_that_are_not_there(studio, inspection, path, status):
    path = path.format(key=inspection["key"])
    found, answer = studio.get(f"{API}/{path}")
    assert found == status
    assert answer.keys() == {"error"}


def test_limits(runs):
    limits = Limits(body_bytes=1000, text_bytes=100)
    with running(studio_settings(runs, limits=limits)) as client:
        for text, status in (("a" * 2000, 413), ("a" * 101, 413), ("é" * 50, 200)):
            question = {"run": "one", "texts": {"text": text}}
            body = json.dumps(question, ensure_ascii=False).encode()
            assert inspect(client, body)[0] == status


def test_the_page_and_its_headers(studio):
    status, headers, body = studio.send("GET", "/studio/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    page = body.decode()
    assert "http" not in page.replace("http-equiv", "")
    assert "style=" not in page
    status, headers, _ = studio.send("GET", "/studio")
    assert (status, headers["location"]) == (307, "studio/")
    for path in ("/studio/no.js", "/studio/../setup.py", "/studio/%2e%2e/setup.py"):
        assert studio.send("GET", path)[0] == 404
    assert studio.send("HEAD", "/studio/")[0] == 200
    assert studio.send("POST", "/studio/", b"")[0] == 404


def test_the_page_needs_no_token_and_its_api_does(runs, tmp_path):
    log = tmp_path / "access.jsonl"
    with running(studio_settings(runs, tokens=SECRET, access_log=log)) as client:
        assert client.send("GET", "/studio/")[0] == 200
        question = {"run": "one", "texts": TEXT}
        status, headers, _ = client.send("GET", f"{API}/runs")
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
        assert inspect(client, question)[0] == 401
        given = {"Authorization": "Bearer secret"}
        assert client.send("GET", f"{API}/runs", headers=given)[0] == 200
        assert inspect(client, question, **given)[0] == 200
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    [line] = [line for line in lines if line.get("rows")]
    assert (line["api"], line["model"], line["status"]) == ("Inspect", "one", "200")
    assert "shape" not in log.read_text("utf-8")


def test_described_in_the_same_document(studio):
    status, document = studio.get("/openapi.json")
    assert status == 200
    OpenAPIV31SpecValidator(document).validate()
    names = ("runs", "inspect", "compare", "attention", "overview", "flow", "stages")
    names += ("query-key", "predictions", "contributions", "run", "log", "records")
    names += ("serve", "alternatives")
    assert {f"{API}/{name}" for name in names} < document["paths"].keys()
    assert {"name": "the studio"} in document["tags"]


def test_no_grpc_port_is_opened(studio):
    assert studio.addresses.grpc == ""


def test_a_server_without_studio_has_no_page_and_imports_nothing_of_it(half_plus_two):
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.serving.server.conftest import running, settings_for\n"
        "with running(settings_for(Path(sys.argv[1]))) as client:\n"
        "    paths = '/studio/', '/studio/api/runs'\n"
        "    print([client.send('GET', path)[0] for path in paths])\n"
        "names = ('transbeam.serving.studio', 'transbeam.serving.server.studio_api')\n"
        "print([name for name in sys.modules if name.startswith(names)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, half_plus_two],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["[404, 404]", "[]"]


@pytest.mark.parametrize("name", ["empty", "missing"])
def test_folders_that_are_no_trained_runs(name, tmp_path):
    (tmp_path / "empty").mkdir()
    with (
        pytest.raises(UserError, match=name),
        running(studio_settings((tmp_path / name,))),
    ):
        pass


def test_a_damaged_run_is_reported_where_it_is_asked_for(tmp_path):
    run = make_run(tmp_path / "run", TINY)
    (run / "training/model.weights.h5").write_bytes(b"cut off")
    with running(studio_settings((run,))) as client:
        status, answer = inspect(client, {"run": "run", "texts": TEXT})
    assert status == 400
    assert "cannot be loaded" in answer["error"]


def test_a_client_that_goes_away_disturbs_nobody(studio):
    connection = HTTPConnection(studio.host, timeout=10)
    body = json.dumps({"run": "two", "texts": {"text": "a list " * 500}})
    connection.request("POST", f"{API}/inspect", body)
    connection.close()
    assert inspect(studio, {"run": "two", "texts": TEXT})[0] == 200
