"""The export stage: what it leaves, when it works again, when it publishes nothing."""

import hashlib
import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.harness.stages import copy_of
from tests.serving.conftest import TINY, invocation_of
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.run_folder import Stage
from transbeam.configs.loader.yaml_config import load_run
from transbeam.serving.export_stage import export
from transbeam.serving.parity.base.parity_checks import ParityCheck
from transbeam.serving.parity.checker_factory import make_parity_checker
from transbeam.serving.parity.export_parity import check_phone_files

PASSED = ParityCheck("form", "check", 0.1, 0.2, True)
FAILED = ParityCheck("form", "other check", 0.3, 0.2, False)
ASKED = SimpleNamespace(
    size=1, ask_once=lambda ask: None, ask_phone_once=lambda model: None
)


def contents(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def run(exported, tmp_path, monkeypatch):
    """A copy of the exported run, where building is copying and the gate is open."""
    folder = copy_of(exported.folder.parent, tmp_path / "tiny")

    def copy_saved_model(trained, target):
        copy_of(exported.saved_model, target)

    def copy_tflite(trained, run_folder, target, rounded):
        copy_of(exported.tflite, target)
        return {
            variant: target / f"model_{variant}.tflite"
            for variant in trained.config.export.tflite
        }

    monkeypatch.setattr(
        "transbeam.serving.export_stage.write_saved_model", copy_saved_model
    )
    monkeypatch.setattr("transbeam.serving.export_stage.write_tflite", copy_tflite)
    monkeypatch.setattr(
        "transbeam.serving.export_stage.check_parity", lambda *_: [PASSED]
    )
    monkeypatch.setattr(
        "transbeam.serving.export_stage.make_task_metric", lambda *_: None
    )
    monkeypatch.setattr(
        "transbeam.serving.export_stage.make_parity_checker", lambda *_: ASKED
    )
    monkeypatch.setattr("transbeam.serving.export_stage.write_warm_up", lambda *_: None)
    monkeypatch.setattr("transbeam.serving.export_stage.write_golden", lambda *_: None)
    monkeypatch.setattr(
        "transbeam.serving.export_stage.load_saved_model_function",
        lambda _: lambda *_: None,
    )
    return folder


def test_what_an_export_leaves(exported):
    assert sorted(path.name for path in exported.folder.iterdir()) == [
        "parity.json",
        "run.yaml",
        "saved_model",
        "stage.json",
        "tflite",
    ]
    assert sorted(path.name for path in exported.tflite.iterdir()) == [
        "model_dynamic_int8.tflite",
        "model_float32.tflite",
        "vocab.txt",
    ]
    assert not list(exported.folder.parent.glob(".export*"))
    parity = json.loads((exported.folder / "parity.json").read_text())
    assert parity == exported.result["parity"]
    assert len({(row["form"], row["check"]) for row in parity}) == 32
    assert all(row["passed"] for row in parity)


def test_result_tells_path_size_and_speed(exported):
    result = json.loads(json.dumps(exported.result))
    forms = [result["saved_model"], *result["tflite"].values()]
    assert [form["path"] for form in forms] == [
        str(exported.saved_model),
        str(exported.tflite / "model_float32.tflite"),
        str(exported.tflite / "model_dynamic_int8.tflite"),
    ]
    size = (exported.tflite / "model_float32.tflite").stat().st_size
    assert result["tflite"]["float32"]["bytes"] == size
    assert all(form["latency_ms"] > 0 for form in forms)
    assert result["saved_model"]["bytes"] == sum(
        path.stat().st_size
        for path in exported.saved_model.rglob("*")
        if path.is_file()
    )
    assert "all 32 comparisons with Keras passed" in result["summary"]


def test_the_same_export_is_not_made_twice(run, exported, monkeypatch):
    monkeypatch.setattr(
        "transbeam.serving.export.atomic_publish.load_trained", None
    )  # would be called first
    again = export(invocation_of(run))
    assert again == {**exported.result, "skipped": True}


def test_weights_of_4_bits_are_rounded_for_the_files(run, exported, monkeypatch):
    rounded, given = {b"of some": "weights"}, []
    monkeypatch.setattr(
        "transbeam.serving.export_stage.rounded_weights", lambda *_: rounded
    )

    def copy_tflite(trained, run_folder, target, weights):
        given.append(weights)
        copy_of(exported.tflite, target)
        return {}

    monkeypatch.setattr("transbeam.serving.export_stage.write_tflite", copy_tflite)
    (run / "export/tflite/model_float32.tflite").unlink()
    export(invocation_of(run))
    assert given == [rounded]


def test_an_export_that_lost_a_file_is_made_again(run, exported):
    (run / "export/tflite/model_float32.tflite").unlink()
    (run / "export/saved_model/1/saved_model.pb").unlink()
    export(invocation_of(run))
    expected = contents(exported.folder)
    found = contents(run / "export")
    for name in expected.keys() - {"stage.json", "parity.json", "run.yaml"}:
        assert found[name] == expected[name]


def test_another_export_moves_the_one_before_aside(run):
    before = contents(run / "export")
    result = export(invocation_of(run, version=2, tflite=()))
    assert (run / "export/saved_model/2/saved_model.pb").is_file()
    assert not (run / "export/tflite").exists()
    assert result["tflite"] == {}
    assert result["parity"] == [PASSED.as_json()]
    (aside,) = (run / "superseded").iterdir()
    assert contents(aside) == before


def test_other_weights_are_exported_anew(run, monkeypatch):
    """A second training from the same inputs need not give the same bits."""
    with (run / "training/model.weights.h5").open("ab") as file:
        file.write(b"\0")

    def stop(*_):
        raise ArtifactError("loaded")

    monkeypatch.setattr("transbeam.serving.export.atomic_publish.load_trained", stop)
    with pytest.raises(ArtifactError, match="loaded"):
        export(invocation_of(run))


def test_a_failed_gate_publishes_nothing(run, monkeypatch):
    monkeypatch.setattr(
        "transbeam.serving.export_stage.make_parity_checker", make_parity_checker
    )
    monkeypatch.setattr(
        "transbeam.serving.export_stage.check_parity",
        lambda _, judge, *forms: check_phone_files(judge, forms[-1]),
    )
    before = contents(run / "export")
    tolerance = replace(TINY.export.tolerance, dynamic_int8=0.0)
    with pytest.raises(ArtifactError) as caught:
        export(invocation_of(run, tolerance=tolerance))
    message = str(caught.value)
    assert re.search("[69] of 15 comparisons with the Keras model failed", message)
    for how in ("XNNPACK", "XNNPACK, filled up", "builtin kernels"):
        line = f"TFLite dynamic_int8, {how}: log-probability, RMS difference: 0.0"
        assert line in message
    assert "TFLite float32" not in message
    assert contents(run / "export") == before
    assert not (run / "superseded").exists()
    assert not list(run.glob(".export*"))


def test_a_failed_first_export_leaves_no_folder(run, monkeypatch):
    monkeypatch.setattr(
        "transbeam.serving.export_stage.check_parity", lambda *_: [PASSED, FAILED]
    )
    shutil.rmtree(run / "export")
    with pytest.raises(ArtifactError, match=r"1 of 2 .*\n  form: other check: 0\.3"):
        export(invocation_of(run))
    assert not (run / "export").exists()
    assert not list(run.glob(".export*"))


def test_leftovers_of_a_killed_export_are_replaced(run):
    stage = Stage(run, "export", "transbeam export")
    invocation = invocation_of(run, top_k=2)
    (run / ".export-building/saved_model/1").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "transbeam.serving.export.atomic_publish._move_into", lambda *_: 1 / 0
        )
        with pytest.raises(ZeroDivisionError):
            export(invocation)
    assert not stage.path.joinpath("stage.json").exists()
    (stage.path / "tflite").mkdir()
    (stage.path / "tflite/half").touch()
    result = export(invocation)
    assert stage.load()["result"] == result
    assert not (stage.path / "tflite/half").exists()


def test_the_export_says_what_it_was_made_with(exported):
    assert load_run(exported.folder / "run.yaml") == TINY


def test_another_configuration_than_the_trained_one(run):
    config = replace(TINY, seed=8)
    with pytest.raises(ArtifactError) as caught:
        export(invocation_of(run, config))
    assert "seed: 0 there, 8 here" in str(caught.value)
    assert f"transbeam train tiny.yaml --run {run}" in str(caught.value)


def test_nothing_trained(run):
    shutil.rmtree(run / "training")
    with pytest.raises(ArtifactError, match=r"no such folder.*transbeam train"):
        export(invocation_of(run))
