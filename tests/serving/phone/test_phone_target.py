"""`transbeam export --target phone`: the folder, and what keeps it from being made."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from configs.errors import ArtifactError, ConfigError
from serving.forms import PhoneModel
from serving.phone.calibration import calibration_of
from serving.phone.export import export_for_phones
from serving.phone.text_model import text_signature
from serving.tasks import task_of
from serving.trained import load_trained
from tests.serving.conftest import LENGTH, TINY, invocation_of, make_run
from tests.serving.phone.models import model_of, unigram, wordpiece

VARIANTS = ("float32", "dynamic_int8")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = make_run(tmp_path_factory.mktemp("phone") / "tiny", TINY)
    return folder, export_for_phones(invocation_of(folder, tflite_text=True))


def test_what_lies_in_the_folder(made):
    folder, result = made
    assert sorted(path.name for path in (folder / "phone").iterdir()) == sorted(
        [
            "README.md",
            "Tokenizer.kt",
            "Tokenizer.swift",
            "golden_ids.json",
            *(f"model_{variant}.tflite" for variant in VARIANTS),
            "parity.json",
            "phone_report.md",
            "phone_report.png",
            "phone_tokenizer.json",
            "run.yaml",
            "stage.json",
            *(f"text_{variant}.tflite" for variant in VARIANTS),
            "tokenizer.py",
            "vocab.txt",
        ]
    )
    assert not (folder / "export").exists()
    assert not list(folder.glob(".phone*"))
    assert list(result["tflite"]) == list(VARIANTS)
    for variant, told in result["tflite"].items():
        file = folder / f"phone/model_{variant}.tflite"
        assert told["path"] == str(file)
        assert told["bytes"] == file.stat().st_size
        assert set(told["latency_ms"]) == {1, 2}
        assert set(told["latency_ms"][1]) == {LENGTH}


def test_what_each_file_loses_is_told(made):
    folder, result = made
    scores = result["scores"]["perplexity"]
    assert set(scores) == {"keras", *VARIANTS}
    assert scores["float32"] == pytest.approx(scores["keras"], rel=1e-4)
    report = (folder / "phone/phone_report.md").read_text()
    for variant in VARIANTS:
        assert f"| `{variant}` |" in report
        assert f"{variant} " in result["summary"]
    for row in result["parity"]:
        assert row["passed"]
        assert f"| {row['form']} | {row['check']} |" in report
    assert Image.open(folder / "phone/phone_report.png").format == "PNG"


def test_the_file_with_a_tokenizer_answers_as_the_plain_one(made):
    _, result = made
    rows = [row for row in result["parity"] if "tokenizer" in row["form"]]
    assert [row["form"] for row in rows] == [
        f"TFLite with the tokenizer, {variant}" for variant in VARIANTS
    ]
    assert rows[0]["value"] < 1e-5


def test_the_tokenizer_beside_it_has_the_golden_ids(made):
    folder, _ = made
    command = [sys.executable, "tokenizer.py", "phone_tokenizer.json"]
    done = subprocess.run(
        [*command, "golden_ids.json"],
        cwd=folder / "phone",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "all as expected" in done.stdout


def test_it_is_not_made_twice(made, monkeypatch):
    folder, result = made
    monkeypatch.setattr("serving.publishing.load_trained", None)
    again = export_for_phones(invocation_of(folder, tflite_text=True))
    # JSON has no numbers for names.
    assert again["skipped"]
    assert again["summary"] == result["summary"]


def test_a_failed_gate_publishes_nothing(made, tmp_path):
    folder = make_run(tmp_path / "tiny", TINY)
    tolerance = replace(TINY.export.tolerance, dynamic_int8=0.0)
    with pytest.raises(ArtifactError, match=r"dynamic_int8, XNNPACK: log-probability"):
        export_for_phones(invocation_of(folder, tolerance=tolerance))
    assert not (folder / "phone").exists()
    assert not list(folder.glob(".phone*"))


def test_no_variant_is_nothing_to_make(made):
    folder, _ = made
    with pytest.raises(ConfigError, match=r"export\.tflite is empty"):
        export_for_phones(invocation_of(folder, tflite=()))


@pytest.mark.parametrize(
    ("name", "tokenizer", "reason"),
    [
        ("classifier_small", unigram, "no ops that TFLite files may hold"),
        ("prefix", wordpiece, "objective.kind=prefix is not asked about one text"),
    ],
)
def test_who_cannot_have_the_tokenizer_inside(name, tokenizer, reason, tmp_path):
    trained = model_of(name, tokenizer(), tmp_path)
    with pytest.raises(ConfigError, match=reason):
        text_signature(trained)


def test_too_little_to_calibrate_on(made, tmp_path):
    folder, _ = made
    trained = load_trained(folder)
    endpoints = task_of(trained).phone_endpoints()
    with tf.io.TFRecordWriter(str(tmp_path / "none")):
        pass
    message = r"the training split has 0 to calibrate int8 on; expected 16 at least"
    with pytest.raises(ArtifactError, match=message):
        calibration_of(trained, tmp_path, endpoints, b"")


def test_every_other_question_is_filled_up(made):
    """What forbids padding is a number, too, and has to be met."""
    folder, _ = made
    trained = load_trained(folder)
    endpoints = task_of(trained).phone_endpoints()
    questions = list(calibration_of(trained, folder, endpoints, b"")["embed"])
    lengths = [question["token_ids"].shape[1] for question in questions]
    assert set(lengths[1::2]) == {LENGTH}
    assert max(lengths[::2]) < LENGTH
    for question in questions:
        real = question["padding_mask"][0].sum()
        assert (
            question["padding_mask"][0]
            == (np.arange(len(question["padding_mask"][0])) < real)
        ).all()


@pytest.mark.slow
def test_padding_is_not_seen_in_int8(made, tmp_path):
    folder = make_run(tmp_path / "tiny", TINY)
    loose = replace(
        TINY.export.tolerance,
        int8=2.0,
        dynamic_int8_agreement=0.0,
        perplexity_loss=2.0,
    )
    export_for_phones(invocation_of(folder, tflite=("int8",), tolerance=loose))
    file = folder / "phone/model_int8.tflite"
    ids = np.arange(5, 15)
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    alone, filled = (
        PhoneModel(file, resized=resized).ask("embed", **inputs)["embedding"]
        for resized in (True, False)
    )
    np.testing.assert_allclose(alone, filled, atol=0.1)


def test_an_unknown_target_is_named():
    done = subprocess.run(
        [sys.executable, "-m", "serving", "export", "a.yaml", "--target", "fridge"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "invalid choice: 'fridge'" in done.stderr
    assert "Traceback" not in done.stderr
