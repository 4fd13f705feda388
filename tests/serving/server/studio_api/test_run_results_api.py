"""Results of a run's stages, over HTTP."""

import json

import jsonschema
import pytest

from tests.serving.conftest import TINY, make_run
from tests.serving.server.conftest import SECRET, running, settings_for
from tests.serving.studio.run_results.sample_results import (
    log_line,
    write_sample_results,
)
from transbeam.configs.loader.run_folder import Stage, save_config
from transbeam.serving.studio.run_results import schemas

API = "/studio/api"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    whole = write_sample_results(make_run(folder / "whole", TINY))
    training = folder / "training"
    Stage(training, "training", "transbeam train").begin({})
    (training / "data").mkdir()
    save_config(training / "data", TINY)
    return whole, training


@pytest.fixture(scope="module")
def studio(runs):
    settings = settings_for(port=None, has_studio=True, studio_runs=runs)
    with running(settings) as client:
        yield client


def test_results(studio):
    status, found = studio.get(f"{API}/run?run=whole")
    assert status == 200
    jsonschema.validate(found, schemas.RUN_RESULTS)
    status, found = studio.get(f"{API}/records?run=whole&split=train&first=1&count=2")
    assert status == 200
    jsonschema.validate(found, schemas.SAMPLES)
    assert [record["number"] for record in found["records"]] == [1, 2]


def test_a_log_that_grows_and_a_training_that_ends(studio, runs):
    _, training = runs
    [_, listed] = studio.get(f"{API}/runs")[1]["runs"]
    assert (listed["is_trained"], listed["has_maps"]) == (False, False)
    body = json.dumps({"run": "training", "texts": {"text": "a"}})
    status, _, answer = studio.send("POST", f"{API}/inspect", body)
    assert (status, b"not finished" in answer) == (400, True)
    log = training / "training/metrics.jsonl"
    log.write_text(f"{log_line(1)}\n")
    _, first = studio.get(f"{API}/log?run=training")
    jsonschema.validate(first, schemas.LOG)
    with log.open("a") as stream:
        stream.write(f"{log_line(2)}\n")
    query = f"run=training&after={first['next']}&file={first['file']}"
    _, second = studio.get(f"{API}/log?{query}")
    assert ([row["step"] for row in second["rows"]], second["is_finished"]) == (
        [2],
        False,
    )
    save_config(training / "training", TINY)
    Stage(training, "training", "transbeam train").finish({}, {})
    assert studio.get(f"{API}/log?run=training")[1]["is_finished"]
    assert studio.get(f"{API}/runs")[1]["runs"][1]["is_trained"]


def test_files_run_nothing(studio):
    path = f"{API}/file?run=whole&path=analysis/report.html"
    status, headers, body = studio.send("GET", path)
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert headers["content-security-policy"].startswith("sandbox; default-src 'none';")
    assert headers["content-disposition"] == "attachment"
    assert headers["x-content-type-options"] == "nosniff"
    assert b"script" in body
    path = f"{API}/file?run=whole&path=analysis%2fheads_entropy.svg"
    status, headers, _ = studio.send("GET", path)
    assert (status, headers["content-type"]) == (200, "image/svg+xml")
    assert headers["content-security-policy"].startswith("sandbox;")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("run?run=none", 404),
        ("run?run=..%2fwhole", 404),
        ("run", 400),
        ("run?run=whole&run=whole", 400),
        ("log?run=none", 404),
        ("log?run=whole&after=-1", 400),
        ("log?run=whole&after=x", 400),
        ("log?run=whole&after=99999999999999999999", 400),
        ("records?run=whole", 400),
        ("records?run=whole&split=test", 400),
        ("records?run=whole&split=train&count=99", 400),
        ("records?run=training&split=train", 400),
        ("file?run=whole", 400),
        ("file?run=whole&path=", 404),
        ("file?run=whole&path=..%2f..%2fsetup.py", 404),
        ("file?run=whole&path=%2e%2e/%2e%2e/etc/passwd", 404),
        ("file?run=whole&path=data/stage.json", 404),
        ("file?run=whole&path=training/model.weights.h5", 404),
        ("file/analysis/report.html?run=whole", 404),
    ],
)
def test_what_is_not_there(studio, query, status):
    found, answer = studio.get(f"{API}/{query}")
    assert found == status
    assert answer.keys() == {"error"}


def test_a_token_is_needed(runs):
    settings = settings_for(
        port=None, has_studio=True, studio_runs=runs[:1], tokens=SECRET
    )
    queries = (
        "run?run=whole",
        "log?run=whole",
        "records?run=whole&split=train",
        "file?run=whole&path=data/card.html",
    )
    given = {"Authorization": "Bearer secret"}
    with running(settings) as client:
        for query in queries:
            assert client.send("GET", f"{API}/{query}")[0] == 401
            assert client.send("GET", f"{API}/{query}", headers=given)[0] == 200
            assert client.send("HEAD", f"{API}/{query}", headers=given)[0] == 200
            assert client.send("POST", f"{API}/{query}", b"", given)[0] == 404
