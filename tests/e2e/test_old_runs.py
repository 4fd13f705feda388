"""Runs of an earlier commit are read, trained on, evaluated, exported and served.

How they were made is in README.md within the archive. Sums round otherwise on other
processors; on the one that made the runs, not a bit of a weight may differ.
"""

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

import transbeam
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.system.cpu_features import identify_processor
from transbeam.model.build import build_model
from transbeam.model.weights.safetensors_store import load_initial_weights
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.serving.client.saved_model_client import LocalClient
from transbeam.serving.server.background_server import in_background
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.models.catalog import ModelSettings

ARCHIVE = Path(__file__).parents[1] / "data/old_runs/5845509.tar.xz"
RUNS = ("anew", "reviews")


def unpack(folder: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    corpus = folder / "reviews.csv"
    # Archives round it, and a corpus that was written later is another one.
    written = read_json(folder / "reviews.csv.mtime_ns.json")
    os.utime(corpus, ns=(written, written))
    return folder


@pytest.fixture(scope="module")
def old(tmp_path_factory) -> Path:
    """The runs as they were, which no test changes."""
    return unpack(tmp_path_factory.mktemp("old"))


@pytest.fixture(scope="module")
def expected(old) -> dict:
    return read_json(old / "expected.json")


@pytest.fixture
def command(tmp_path, monkeypatch, capsys) -> Callable[..., dict]:
    """Runs a command on a copy of the old runs, and returns its JSON."""
    monkeypatch.chdir(unpack(tmp_path))

    def run(*argv: str) -> dict:
        capsys.readouterr()
        assert transbeam.main([*argv, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def read_json(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))


def assert_equal_weights(found: Path, expected: Path, old: Path) -> None:
    found, expected = load_file(found), load_file(expected)
    assert list(found) == list(expected)
    for name, weight in expected.items():
        if read_json(old / "processor.json") == identify_processor():
            np.testing.assert_array_equal(found[name], weight, name)
        else:
            np.testing.assert_allclose(found[name], weight, rtol=1e-3, atol=1e-4)


def test_nothing_is_done_again(command):
    results = command("run", "reviews.yaml", "--run", "reviews")
    skipped = {stage for stage, result in results.items() if result.get("skipped")}
    assert skipped == {"data", "train", "export"}


def test_records_made_anew_have_the_same_bytes(command):
    command("data", "reviews.yaml", "--run", "anew")
    for file in sorted(Path("reviews/data/records").iterdir()):
        assert file.read_bytes() == Path("anew/data/records", file.name).read_bytes()
    found, before = (read_json(Path(run, "data/stage.json")) for run in RUNS)
    assert before["inputs"].items() <= found["inputs"].items()


def test_training_goes_on_to_the_same_weights(command, old):
    arguments = ("train", "reviews.yaml", "--run", "reviews")
    began = Path("reviews/training/checkpoints/step-00000020/state.safetensors")
    inode = began.stat().st_ino
    command(*arguments, "--set", "training.steps=24")
    assert began.stat().st_ino == inode
    state = "reviews/training/checkpoints/step-00000024/state.safetensors"
    assert_equal_weights(Path(state), old / "longer.safetensors", old)


def test_training_anew_ends_in_the_same_weights(command, old):
    command("data", "reviews.yaml", "--run", "anew")
    command("train", "reviews.yaml", "--run", "anew", "--set", "training.steps=24")
    state = "anew/training/checkpoints/step-00000024/state.safetensors"
    assert_equal_weights(Path(state), old / "longer.safetensors", old)


def test_evaluation_finds_the_same_scores(command, old):
    found = command("evaluate", "reviews.yaml", "--run", "reviews")
    before = read_json(old / "reviews/evaluation/validation/scores.json")
    assert found["loss"] == pytest.approx(before["loss"], rel=1e-5)
    for name, score in before["scores"].items():
        assert found["scores"][name] == pytest.approx(score), name


def test_the_exported_model_answers_as_it_did(old, expected):
    with LocalClient(old / "reviews/export/saved_model") as client:
        assert_answers(client, expected)


def test_what_is_exported_anew_answers_as_it_did(command, expected):
    command("export", "reviews.yaml", "--run", "reviews", "--set", "export.tflite=[]")
    with LocalClient(Path("reviews/export/saved_model")) as client:
        assert_answers(client, expected)


def assert_answers(client: LocalClient, expected: dict) -> None:
    texts = expected["texts"]
    found = client.ask("tokenize", {"text": texts})
    for name, values in expected["tokenize"].items():
        np.testing.assert_array_equal(found[name], values, name)
    found = client.ask("serving_default", {"text": texts})
    np.testing.assert_allclose(
        found["scores"], expected["classify"]["scores"], atol=1e-5
    )
    labels = [label.decode() for label in found["label"].tolist()]
    assert labels == expected["classify"]["label"]


def test_the_exported_model_is_served(old, expected, capsys):
    folder = old / "reviews/export/saved_model"
    settings = ServerSettings(
        models=(ModelSettings("old", folder),), port=0, rest_port=0
    )
    with in_background(settings) as addresses:
        asked = ["predict", "--server", addresses.rest, "--name", "old"]
        texts = [f"--text={text}" for text in expected["texts"][:1]]
        assert transbeam.main([*asked, *texts, "--json"]) == 0
    [answer] = json.loads(capsys.readouterr().out)["predictions"]
    scores = {one["label"]: one["score"] for one in answer["classes"]}
    assert scores == pytest.approx(
        dict(zip(["bad", "good"], expected["classify"]["scores"][0], strict=True)),
        abs=1e-5,
    )


def test_the_tokenizer_gives_the_ids_that_phones_were_given(old):
    golden = read_json(old / "reviews/phone/golden_ids.json")
    tokenizer = load_tokenizer(old / "reviews/data/tokenizer")
    texts = [case["text"] for case in golden["cases"] if not case["masks"]]
    ids = [case["ids"] for case in golden["cases"] if not case["masks"]]
    assert tokenizer.tokenize(texts).to_list() == ids


def test_an_imported_checkpoint_gives_the_same_logits(old, expected):
    run = old / "imported"
    config = load_run(run / "run.yaml", with_model=True)
    model = build_model(config.model, config.objective, 100)
    load_initial_weights(model, run / "imported/weights.safetensors")
    given = expected["imported"]["inputs"]
    inputs = {name: np.array(values) for name, values in given.items()}
    logits = keras.ops.convert_to_numpy(model(inputs)["logits"])
    np.testing.assert_allclose(logits, expected["imported"]["logits"], atol=1e-5)
