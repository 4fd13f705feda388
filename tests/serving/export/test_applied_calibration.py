"""An export applies a fitted calibration of its weights, or is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.serving.conftest import TINY, invocation_of, make_run
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.loader.calibration_file import (
    Calibration,
    hash_file,
    is_calibrated,
    run_calibration,
    write_calibration,
)
from transbeam.configs.loader.export_support import check_export
from transbeam.configs.loader.run_folder import Stage
from transbeam.configs.schema.objectives.supervised import ClassificationConfig
from transbeam.serving.base.applied_calibration import find_applied_calibration
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
    assert first["temperature"] == first["file"]["temperature"] == 2.5
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
