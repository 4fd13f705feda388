"""`/openapi.json`: valid, made for what is served right now, and for who may ask."""

import json
import shutil

import jsonschema
import numpy as np
import pytest
import tensorflow as tf
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.serving.server.conftest import NAME, SECRET, running, settings_for
from tests.serving.server.openapi import site_sample
from tests.serving.server.sample_models.counting_model import save_counting
from tests.serving.server.sample_models.half_plus_two_model import save_half_plus
from tests.serving.server.test_fault_tolerance import until
from transbeam.serving.base.golden_requests import GoldenRequest, write_golden
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.models.catalog import ModelSettings
from transbeam.serving.server.models.versions import Policy

PATH = "/openapi.json"
MODEL = f"/v1/models/{NAME}"
CODES = {"200", "400", "404", "408", "413", "415", "429", "500", "503", "504"}


def described(client, **headers):
    status, head, body = client.send("GET", PATH, headers=headers)
    assert status == 200
    assert head["content-type"] == "application/json"
    document = json.loads(body)
    OpenAPIV31SpecValidator(document).validate()
    return document


@pytest.fixture(scope="module")
def document(server):
    return described(server)


def question(document, method="predict", name=NAME, version="123"):
    """Holds bodies against the schema of a question."""
    whole = document["components"]["schemas"][f"{name}.{version}.{method}.question"]
    schema = {**whole, "components": document["components"]}
    return jsonschema.Draft202012Validator(schema).is_valid


def test_the_paths_of_a_model_and_of_the_server(document):
    asked = [
        f"{place}:{method}"
        for place in (MODEL, f"{MODEL}/versions/{{version}}")
        for method in ("predict", "classify", "regress")
    ]
    looks = [MODEL, f"{MODEL}/metadata"]
    looks += [f"{MODEL}/versions/{{version}}{end}" for end in ("", "/metadata")]
    doors = ["/livez", "/readyz", "/monitoring/prometheus/metrics"]
    kinds = ("completions", "chat/completions", "embeddings", "models")
    openai = [f"/openai/v1/{kind}" for kind in (*kinds, "models/{model}")]
    assert set(document["paths"]) == {*asked, *looks, *doors, *openai}
    for path in asked:
        [operation] = [document["paths"][path]["post"]]
        assert set(operation["responses"]) == CODES
    identifiers = [
        operation["operationId"]
        for item in document["paths"].values()
        for verb, operation in item.items()
        if verb in ("get", "post")
    ]
    assert len(set(identifiers)) == len(document["paths"])
    assert "securitySchemes" not in document["components"]


@pytest.mark.parametrize(
    "body",
    [
        {"instances": [1.0, 2]},
        {"instances": [{"x": 1.0}]},
        {"inputs": [1.0]},
        {"inputs": {"x": []}},
        {"signature_name": "", "instances": [0.5]},
        {"signature_name": "two", "instances": [{"x": 1.5, "scale": -2}]},
        {"signature_name": "two", "inputs": {"x": [1.5], "scale": [3], "more": 1}},
        {"signature_name": "rows", "instances": ["a", {"b64": "/w=="}]},
        {"signature_name": "sums", "instances": [[1, 2], [3, 4]]},
        {"signature_name": "total", "inputs": [1.0, 2.0]},
    ],
)
def test_what_is_described_is_answered(server, document, body):
    assert question(document)(body)
    status, answer = server.post(f"{NAME}:predict", body)
    assert status == 200
    schemas = document["components"]
    told = schemas["schemas"][f"{NAME}.123.predict.answer"]
    jsonschema.validate(answer, {**told, "components": schemas})


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"instances": []},
        {"instances": [True]},
        {"instances": ["1"]},
        {"instances": [1.0], "inputs": [1.0]},
        {"instances": [{"x": 1.0, "y": 2.0}]},
        {"signature_name": "unheard-of", "instances": [1.0]},
        {"signature_name": "two", "instances": [1.0]},
        {"signature_name": "two", "instances": [{"x": 1.0, "scale": 2**31}]},
        {"signature_name": "rows", "instances": [{"b64": 3}]},
        {"signature_name": "sums", "inputs": [1, 2]},
        {"signature_name": "total", "instances": [1.0]},
    ],
)
def test_what_is_not_described_is_refused(server, document, body):
    assert not question(document)(body)
    status, answer = server.post(f"{NAME}:predict", body)
    assert status == 400
    assert answer.keys() == {"error"}


@pytest.mark.parametrize("method", ["classify", "regress"])
def test_examples(server, document, method):
    name = f"{method}_x_to_y"
    body = {"signature_name": name, "context": {"x": 8.0}, "examples": [{}, {"x": 2.0}]}
    assert question(document, method)(body)
    status, answer = server.post(f"{NAME}:{method}", body)
    assert status == 200
    told = document["components"]["schemas"][f"{NAME}.123.{method}.answer"]
    jsonschema.validate(answer, told)
    for wrong in ({"signature_name": "two"}, {"examples": []}, {"context": 1}):
        assert not question(document, method)(body | wrong)
        assert server.post(f"{NAME}:{method}", body | wrong)[0] == 400


def test_shapes_and_types_that_json_has_no_words_for(tmp_path):
    model = tf.Module()
    fixed = tf.TensorSpec([2, 3], tf.int64, name="fixed")
    free = tf.TensorSpec(None, tf.string, name="free")
    half = tf.TensorSpec([None], tf.float16, name="half")
    one = tf.TensorSpec([], tf.bool, name="one")
    made = {
        name: tf.function(
            lambda value: {"out_bytes": tf.io.serialize_tensor(value)},
            input_signature=[spec],
        ).get_concrete_function()
        for name, spec in (("a", fixed), ("b", free), ("c", half), ("d", one))
    }
    tf.saved_model.save(model, str(tmp_path / "odd" / "1"), signatures=made)
    with running(settings_for(tmp_path / "odd")) as client:
        document = described(client)
        fits = question(document, name="odd", version="1")
        rows = [[1, 2, 3], [4, 5, 6]]
        assert fits({"signature_name": "a", "inputs": rows})
        assert not fits({"signature_name": "a", "inputs": rows[:1]})
        assert fits({"signature_name": "b", "inputs": [["a"], ["b"]]})
        assert fits({"signature_name": "d", "inputs": True})
        # What JSON has no values for is not described, and refused.
        asked = {"signature_name": "c", "inputs": [0.5]}
        assert not fits(asked)
        assert client.post("odd:predict", asked)[0] == 501
        status, answer = client.post(
            "odd:predict", {"signature_name": "d", "inputs": 1}
        )
        assert status == 400, answer
        status, answer = client.post(
            "odd:predict", {"signature_name": "a", "inputs": rows}
        )
        assert status == 200
        told = document["components"]["schemas"]["odd.1.predict.answer"]
        schema = {**told, "components": document["components"]}
        jsonschema.validate(answer, schema)


def test_the_site_shows_what_servers_describe(tmp_path):
    shown = json.loads(site_sample.FILE.read_text("utf-8"))
    anew = "python -m tests.serving.server.openapi.site_sample writes it anew"
    assert shown == site_sample.sample(tmp_path), anew


def test_versions_labels_and_streams(tmp_path):
    folder = tmp_path / NAME
    save_half_plus(folder / "7")
    save_half_plus(folder / "8", held=False)
    save_counting(tmp_path / "counting" / "1")
    labels = {"stable": 7, "gone": 6}
    models = (
        ModelSettings(NAME, folder, Policy(latest=2), labels),
        ModelSettings("counting", tmp_path / "counting"),
    )
    settings = ServerSettings(
        models=models,
        port=0,
        rest_port=0,
        allow_version_labels_for_unavailable_models=True,
    )
    with running(settings) as client:
        document = described(client)
        paths = document["paths"]
        [version] = paths[f"{MODEL}/versions/{{version}}:predict"]["parameters"]
        assert version["schema"]["enum"] == [7, 8]
        [label] = paths[f"{MODEL}/labels/{{label}}:predict"]["parameters"]
        assert label["schema"]["enum"] == ["stable"]
        held = {"signature_name": "held", "instances": ["a"]}
        assert question(document, version="7")(held)
        assert not question(document, version="8")(held)
        # A path without a version is that of the latest.
        body = paths[f"{MODEL}:predict"]["post"]["requestBody"]["content"]
        [reference] = body["application/json"]["schema"].values()
        assert reference.endswith(f"/{NAME}.8.predict.question")
        assert f"{MODEL}:stream" not in paths
        told = paths["/v1/models/counting:stream"]["post"]["responses"]["200"]
        assert set(told["content"]) == {"text/event-stream"}
        fits = question(document, "stream", "counting", "1")
        assert fits({"text": "3", "stop": ["."], "max_new_tokens": 3})
        assert not fits({"max_new_tokens": 3})
        assert not fits({"text": "3", "words": 3})
        # Its inner steps are nobody's to ask.
        assert not question(document, name="counting", version="1")(
            {"signature_name": "stream_keep", "inputs": {}}
        )


def test_another_version_is_described_when_it_answers(tmp_path):
    folder = tmp_path / NAME
    save_half_plus(folder / "1", held=False)
    save_half_plus(tmp_path / "coming")
    with running(settings_for(folder, poll_seconds=0.05)) as client:
        assert (
            f"{NAME}.1.predict.question" in described(client)["components"]["schemas"]
        )
        (tmp_path / "coming").rename(folder / "2")
        until(lambda: f"{NAME}.2.predict.question" in str(described(client)))
        shutil.rmtree(folder)
        assert f"{NAME}.2.predict.question" in str(described(client))


def test_known_questions_are_the_examples(tmp_path):
    version = save_half_plus(tmp_path / NAME / "1")
    two = {"x": np.float32([2, 4]), "scale": np.int32([3, -1])}
    texts = {"text": np.array([b"ab", b"\xff"], object)}
    total = {"x": np.float32([1, 2])}
    write_golden(
        version,
        [
            GoldenRequest("", {"x": np.float32([1])}, {"y": np.float32([2.5])}),
            GoldenRequest("two", two, {"y": np.float32([9, -4])}),
            GoldenRequest("rows", texts, {"length": np.int32([2, 1])}),
            GoldenRequest("total", total, {"total": np.float32(3)}),
        ],
    )
    with running(settings_for(tmp_path / NAME)) as client:
        operation = described(client)["paths"][f"{MODEL}:predict"]["post"]
        examples = operation["requestBody"]["content"]["application/json"]["examples"]
        assert {name: of["value"] for name, of in examples.items()} == {
            "serving_default": {"instances": [1.0]},
            "two": {
                "signature_name": "two",
                "instances": [{"scale": 3, "x": 2.0}, {"scale": -1, "x": 4.0}],
            },
            "rows": {"signature_name": "rows", "instances": ["ab", {"b64": "/w=="}]},
            "total": {"signature_name": "total", "inputs": {"x": [1.0, 2.0]}},
        }
        for example in examples.values():
            assert client.post(f"{NAME}:predict", example["value"])[0] == 200


def test_who_does_not_show_the_token_is_not_told_what_there_is(half_plus_two):
    with running(settings_for(half_plus_two, tokens=SECRET)) as client:
        status, headers, body = client.send("GET", PATH)
        assert status == 401
        assert headers["www-authenticate"] == "Bearer"
        assert NAME not in body.decode()
        document = described(client, Authorization="Bearer secret")
        schemes = document["components"]["securitySchemes"]
        assert schemes == {"bearer": {"type": "http", "scheme": "bearer"}}
        assert document["security"] == [{"bearer": []}]
        paths = document["paths"]
        assert "401" in paths[f"{MODEL}:predict"]["post"]["responses"]
        assert "401" in paths["/monitoring/prometheus/metrics"]["get"]["responses"]
        for door in ("/livez", "/readyz"):
            assert paths[door]["get"]["security"] == []
            assert "401" not in paths[door]["get"]["responses"]


def test_other_verbs(server):
    status, headers, body = server.send("HEAD", PATH)
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 1000
    assert server.send("POST", PATH, b"{}")[0] == 404
