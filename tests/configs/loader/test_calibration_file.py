"""The calibration file is read as it was written, or refused."""

import json
from pathlib import Path

import pytest

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.calibration_file import (
    Calibration,
    read_calibration,
    run_calibration,
    write_calibration,
)

WHOLE = Calibration(
    weights_sha256="a1",
    records_sha256="b2",
    temperature=1.5,
    thresholds={"law": 0.25, "sport": 1.0},
    no_answer_threshold=-0.5,
)


@pytest.mark.parametrize(
    "calibration", [WHOLE, Calibration(weights_sha256="a", records_sha256="b")]
)
def test_written_and_read(calibration: Calibration, tmp_path: Path) -> None:
    path = run_calibration(tmp_path / "run")
    assert read_calibration(path, "") is None
    write_calibration(path, calibration)
    assert path == tmp_path / "run/evaluation/calibration.json"
    assert read_calibration(path, "") == calibration


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"temperature": 0},
        {"temperature": -1.0},
        {"temperature": "2"},
        {"temperature": True},
        {"temperature": float("inf")},
        {"no_answer_threshold": float("nan")},
        {"thresholds": {"law": 1.5}},
        {"thresholds": {"law": None}},
        {"thresholds": [0.5]},
        {"weights_sha256": None},
        {"records_sha256": 7},
    ],
)
def test_values_that_are_none_are_refused(change: dict, tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    write_calibration(path, WHOLE)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ArtifactError, match=r"is no calibration .*Do this"):
        read_calibration(path, "Do this")


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "\xff" * 9])
def test_damaged_files_are_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ArtifactError, match=r"calibration.json: .* Do this"):
        read_calibration(path, "Do this")
