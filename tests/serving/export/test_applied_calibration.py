"""An export applies a fitted calibration of its weights, or is refused."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.serving.conftest import TINY, invocation_of, make_run
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.loader.calibration_file import (
    Calibration,
    hash_file,
    is_calibrated,
    read_calibration,
    run_calibration,
    write_calibration,
)
from transbeam.configs.loader.export_support import check_export
from transbeam.configs.loader.run_folder import Stage
from transbeam.configs.schema.export import ExportConfig
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    MultiLabelClassificationConfig,
    SpanQAConfig,
)
from transbeam.serving.base.applied_calibration import (
    _at_temperature,
    find_applied_calibration,
)
from transbeam.serving.base.trained_run import WEIGHTS, TrainedRun
from transbeam.serving.export.atomic_publish import publish

CONFIG = replace(
    TINY,
    objective=ClassificationConfig(labels=("a", "b")),
    model=replace(TINY.model, num_layers=1),
    export=replace(TINY.export, examples=(), fitted_temperature=True),
)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("calibrated") / "run", CONFIG)


def store(run_folder: Path, temperature: float | None, weights: str = "") -> None:
    calibration = Calibration(
        weights_sha256=weights or hash_file(run_folder / WEIGHTS),
        records_sha256="",
        temperature=temperature,
    )
    write_calibration(run_calibration(run_folder), calibration)


def published(run_folder: Path) -> dict:
    """The result of an export that writes the calibration alone."""
    invocation = invocation_of(run_folder, CONFIG)
    stage = Stage(run_folder, "export", "transbeam export")
    file = stage.path / "calibration.json"

    def make(trained: TrainedRun, building: Path, published: Path) -> dict:
        building.mkdir()
        trained.calibration.write(building / file.name)
        return {"parity": [], "summary": "done"}

    result = publish(invocation, stage, [file], make)
    return {**result, "file": json.loads(file.read_text())}


def test_it_is_made_again_when_another_temperature_was_fitted(run_folder: Path):
    store(run_folder, 2.5)
    first = published(run_folder)
    assert first["file"]["temperature"] == 2.5
    assert first["calibration"]["temperature"] == 2.5
    assert first["summary"] == "done; logits divided by the temperature 2.5"
    assert published(run_folder)["skipped"]
    store(run_folder, 3.0)
    second = published(run_folder)
    assert "skipped" not in second
    assert second["file"]["temperature"] == 3.0
    store(run_folder, 1.0)
    assert published(run_folder)["summary"].startswith("done; no temperature")


def test_missing_stale_and_empty_calibrations_are_refused(run_folder: Path) -> None:
    run_calibration(run_folder).unlink(missing_ok=True)
    command = "transbeam evaluate tiny.yaml"
    expected = f"there is no such file.*export.fitted_temperature.*{command}"
    with pytest.raises(ArtifactError, match=expected):
        published(run_folder)
    assert not is_calibrated(run_folder)
    store(run_folder, 2.0, weights="0" * 64)
    with pytest.raises(ArtifactError, match=f"other weights.*000000000000….*{command}"):
        published(run_folder)
    assert not is_calibrated(run_folder)
    store(run_folder, None)
    with pytest.raises(ArtifactError, match="has no temperature"):
        published(run_folder)
    assert is_calibrated(run_folder)


def test_nothing_is_read_unless_it_is_asked_for(run_folder: Path) -> None:
    plain = replace(CONFIG, export=replace(CONFIG.export, fitted_temperature=False))
    found = find_applied_calibration(plain, run_folder / "nowhere", "", "")
    assert found.temperature == 1
    assert found.as_inputs() == {}
    assert str(found) == ""
    # An export of an earlier version, without the key, is up to date.
    stage = Stage(run_folder, "old", "transbeam export")
    stage.begin({})
    stage.finish({}, {})
    assert stage.result_if_done({"export.fitted_temperature": False}) is not None
    assert stage.result_if_done({"export.fitted_temperature": True}) is None


def test_a_kind_without_classes_is_refused() -> None:
    check_export(CONFIG)
    masked = replace(TINY, export=replace(TINY.export, fitted_temperature=True))
    with pytest.raises(ConfigError, match="kind=masked has no classes"):
        check_export(masked)


def applied(run_folder: Path, config, **fitted):
    """Fitted numbers that an export of a run applies."""
    calibration = Calibration(weights_sha256="w", records_sha256="", **fitted)
    write_calibration(run_calibration(run_folder), calibration)
    return find_applied_calibration(config, run_folder, "w", "transbeam evaluate a")


def label_sets(**export_keys):
    objective = MultiLabelClassificationConfig(labels=("law", "arts"), threshold=0.3)
    return replace(TINY, objective=objective, export=ExportConfig(**export_keys))


@given(st.floats(0.001, 0.999), st.floats(0.05, 20), st.floats(-20, 20))
def test_a_temperature_changes_no_decision_of_a_fitted_threshold(
    threshold: float, temperature: float, logit: float
) -> None:
    scaled = _at_temperature(threshold, temperature)
    assume(abs(logit - math.log(threshold / (1 - threshold))) > 1e-6)
    decided = 1 / (1 + math.exp(-logit)) >= threshold
    assert (1 / (1 + math.exp(-logit / temperature)) >= scaled) == decided


def test_thresholds_of_labels(tmp_path: Path) -> None:
    fitted = {"temperature": 2.0, "thresholds": {"arts": 0.2, "law": 0.5}}
    both = label_sets(fitted_temperature=True, fitted_thresholds=True)
    found = applied(tmp_path, both, **fitted)
    # In the order of the labels, of probabilities at the temperature.
    assert found.label_thresholds(both.objective) == pytest.approx((0.5, 1 / 3))
    assert "thresholds law 0.5, arts 0.333" in str(found)
    alone = applied(tmp_path, label_sets(fitted_thresholds=True), **fitted)
    assert alone.label_thresholds(both.objective) == (0.5, 0.2)
    assert alone.temperature == 1
    assert alone.as_inputs() != found.as_inputs()
    without = applied(tmp_path, label_sets(fitted_temperature=True), **fitted)
    assert without.label_thresholds(both.objective) == (0.3, 0.3)
    found.write_to_saved_model(tmp_path / "1")
    written = read_calibration(tmp_path / "1/assets.extra/calibration.json", "")
    assert written is not None
    assert written.thresholds == found.thresholds
    for thresholds in (None, {"law": 0.5, "sport": 0.5}):
        with pytest.raises(ArtifactError, match=r"those of .* are law, arts"):
            applied(tmp_path, both, temperature=2.0, thresholds=thresholds)


def test_a_no_answer_threshold(tmp_path: Path) -> None:
    export = ExportConfig(fitted_thresholds=True)
    config = replace(TINY, objective=SpanQAConfig(max_question_length=8), export=export)
    found = applied(tmp_path, config, no_answer_threshold=-0.5)
    assert found.no_answer_threshold == -0.5
    assert str(found) == "no-answer threshold -0.5"
    with pytest.raises(ArtifactError, match="questions without an answer"):
        applied(tmp_path, config)


def test_a_kind_without_thresholds_is_refused() -> None:
    check_export(label_sets(fitted_temperature=True, fitted_thresholds=True))
    export = replace(CONFIG.export, fitted_thresholds=True)
    with pytest.raises(ConfigError, match="kind=classification decides by no"):
        check_export(replace(CONFIG, export=export))
