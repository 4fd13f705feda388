"""Exports that the studio serves, and the alternatives of generated tokens."""

import json
import shutil
from dataclasses import replace

import jsonschema
import pytest

from tests.objective_configs import config_of
from tests.serving.conftest import TINY, exported_run, make_run
from tests.serving.server.conftest import SECRET, running, settings_for
from transbeam.configs.loader.yaml_config import load_run
from transbeam.serving.server.models.catalog import ModelSettings
from transbeam.serving.server.studio_api import served_exports, try_requests
from transbeam.serving.studio import schemas

API = "/studio/api"
FEW = ["tokenizer.vocabulary_size=300"]
KINDS = ("causal", "seq2seq", "prefix")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    masked = exported_run(TINY).run_folder
    # Two runs of one name, and one whose name is no model's.
    made = [folder / "a" / masked.name, folder / "my run", masked]
    for copy in made[:2]:
        shutil.copytree(masked, copy)
    made.append(make_run(folder / "without", TINY))
    for kind in KINDS:
        if kind == "prefix":  # its tokenizer needs more text than there is here
            config = replace(config_of(kind), name="tiny_prefix")
        else:
            config = load_run(f"configs/tiny/{kind}.yaml", FEW)
        export = replace(config.export, tflite=())
        config = replace(config, training=TINY.training, export=export)
        made.append(exported_run(config, optimized=False).run_folder)
    return tuple(made)


def try_settings(runs, **changes):
    found = {"port": None, "has_studio": True, "studio_loads": True, **changes}
    return settings_for(**found, studio_runs=runs)


@pytest.fixture(scope="module")
def studio(runs):
    with running(try_settings(runs)) as client:
        yield client


def ask(client, name, body, **headers):
    text = body if isinstance(body, bytes) else json.dumps(body)
    status, _, answer = client.send("POST", f"{API}/{name}", text, headers)
    return status, json.loads(answer)


def serve(client, run):
    while True:  # an export may take longer to load than a request
        status, answer = ask(client, "serve", {"run": run})
        if status != 200:
            return status, answer
        jsonschema.validate(answer, try_requests.SERVED)
        if answer["served_as"] is not None:
            return status, answer


def described(client):
    status, found = client.get(f"{API}/runs")
    assert status == 200
    jsonschema.validate(found, schemas.RUNS)
    return {run["name"]: run for run in found["runs"]}


def test_names_of_models(studio, runs):
    found = {name: run["served_as"] for name, run in described(studio).items()}
    assert found["my run"] == "my-run"
    assert found["tiny_causal"] == "tiny_causal"
    assert found["without"] is None
    same = [found[str(runs[0])], found[str(runs[2])]]
    assert None not in same
    assert same[0] != same[1]


def test_an_export_is_loaded_when_it_is_needed(runs):
    path = "/v1/models/my-run"
    with running(try_settings(runs)) as studio:
        assert studio.get(path)[0] == 404
        assert serve(studio, "my run")[1] == {"run": "my run", "served_as": "my-run"}
        assert studio.get(path)[0] == 200
        question = {"instances": ["a [MASK] list"]}
        status, answer = studio.post("my-run:predict", question)
    assert status == 200
    assert len(answer["predictions"][0]["fills"][0]) == 3


@pytest.mark.parametrize(
    ("name", "body", "status", "words"),
    [
        ("serve", {"run": "without"}, 400, "transbeam export"),
        ("serve", {"run": "nowhere"}, 404, "no run 'nowhere'"),
        ("serve", {}, 400, "not of the form"),
        ("serve", b"[" * 100_000, 400, "not JSON"),
        ("alternatives", {"run": "without"}, 400, "not of the form"),
    ],
)
def test_bad_requests(studio, name, body, status, words):
    found, answer = ask(studio, name, body)
    assert answer.keys() == {"error"}
    assert words in answer["error"]
    assert found == status


@pytest.mark.parametrize("kind", KINDS)
def test_the_most_probable_alternatives_are_those_that_were_generated(studio, kind):
    name = f"tiny_{kind}"
    serve(studio, name)
    body = {"inputs": {"text": ["returns a list"], "max_new_tokens": [5]}}
    body["signature_name"] = "generate"
    status, answer = studio.post(f"{name}:predict", body)
    assert status == 200
    length = answer["outputs"]["length"][0]
    ids = answer["outputs"]["token_ids"][0][:length]
    question = {"run": name, "texts": {"text": "returns a list"}, "token_ids": ids}
    status, found = ask(studio, "alternatives", question)
    assert status == 200
    jsonschema.validate(found, try_requests.ALTERNATIVES)
    assert [token["id"] for token in found["tokens"]] == ids
    for token in found["tokens"]:
        best, *others = token["alternatives"]
        # Generated without a temperature: always the best.
        assert best == {name: token[name] for name in ("id", "piece", "probability")}
        shares = [each["probability"] for each in others]
        assert shares == sorted(shares, reverse=True)
        assert best["probability"] >= shares[0]


@pytest.mark.parametrize(
    ("run", "changes", "words"),
    [
        ("tiny_causal", {"token_ids": [300]}, "found 300; expected ids below"),
        ("tiny_causal", {"texts": {"second_text": "a"}}, "second_text"),
        ("tiny_causal", {"texts": {"text": "\ud83d"}}, "surrogate"),
        ("tiny_causal", {"token_ids": []}, "not of the form"),
        ("tiny_causal", {"token_ids": [True]}, "not of the form"),
        ("my run", {}, "logits_ids"),
    ],
)
def test_bad_questions_for_alternatives(studio, run, changes, words):
    serve(studio, run)
    question = {"run": run, "texts": {"text": "a list"}, "token_ids": [5], **changes}
    status, answer = ask(studio, "alternatives", question)
    assert status == 400
    assert words in answer["error"]


def test_exports_make_room_for_others(runs, monkeypatch):
    monkeypatch.setattr(served_exports, "_MOST_LOADED", 1)
    with running(try_settings(runs[:3])) as client:
        first = described(client)[str(runs[0])]["served_as"]
        for run, name in ((str(runs[0]), first), ("my run", "my-run")):
            assert serve(client, run)[1]["served_as"] == name
        assert client.get("/v1/models/my-run/metadata")[0] == 200
        assert client.get(f"/v1/models/{first}/metadata")[0] == 404


def test_a_damaged_export_says_so_and_others_answer(runs, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(runs[1], damaged)
    (damaged / "export/saved_model/1/saved_model.pb").write_bytes(b"cut off")
    with running(try_settings((damaged, runs[1]))) as client:
        status, answer = serve(client, "damaged")
        assert status == 400
        assert "nothing can be loaded" in answer["error"]
        assert serve(client, "my run")[0] == 200


def test_beside_the_rest_api_the_run_is_the_model_of_its_folder(runs):
    model = ModelSettings("other-name", runs[1] / "export/saved_model")
    settings = try_settings(runs[:2], models=(model,), studio_loads=False)
    with running(settings) as client:
        found = described(client)
        assert found["my run"]["served_as"] == "other-name"
        assert serve(client, "my run")[1]["served_as"] == "other-name"
        other = next(run for name, run in found.items() if name != "my run")
        assert "transbeam studio" in other["why_not_served"]
        assert serve(client, other["name"])[0] == 400


def test_a_token_is_needed(runs):
    with running(try_settings(runs[1:2], tokens=SECRET)) as client:
        assert ask(client, "serve", {"run": "my run"})[0] == 401
        given = {"Authorization": "Bearer secret"}
        assert ask(client, "serve", {"run": "my run"}, **given)[0] == 200
