"""A training's log, read while it grows."""

import os

import pytest

from tests.serving.studio.run_results.sample_results import log_line
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.run_folder import Stage
from transbeam.serving.studio.run_results.training_log import read_log


@pytest.fixture
def log(tmp_path):
    Stage(tmp_path, "training", "transbeam train").begin({})
    return tmp_path / "training/metrics.jsonl"


def steps(found):
    return [row["step"] for row in found["rows"]]


def read(log, before=None):
    before = before or {"next": 0, "file": ""}
    return read_log(log.parents[1], before["next"], before["file"])


def test_new_lines_only(log):
    assert read(log) == {
        "file": "",
        "start": 0,
        "next": 0,
        "rows": [],
        "damaged": 0,
        "is_whole": True,
        "is_finished": False,
    }
    log.write_text(log_line(1, loss=2) + "\n" + log_line(2, loss=1)[:20])
    found = read(log)
    assert steps(found) == [1]
    # The rest of the second line.
    log.write_text(log_line(1, loss=2) + "\n" + log_line(2, loss=1) + "\n")
    found = read(log, found)
    assert (steps(found), found["start"] > 0) == ([2], True)
    found = read(log, found)
    assert steps(found) == []


def test_a_log_that_was_cut_is_read_anew(log):
    log.write_text("".join(f"{log_line(step)}\n" for step in (1, 2, 3)))
    found = read(log)
    # As the trainer does it, when it resumes from an earlier step.
    cut = log.with_name("cut")
    cut.write_text("".join(f"{log_line(step)}\n" for step in (1, 2, 4, 5, 6)))
    os.replace(cut, log)
    again = read(log, found)
    assert (again["start"], steps(again)) == (0, [1, 2, 4, 5, 6])
    assert again["file"] != found["file"]
    log.write_text(f"{log_line(1)}\n")
    assert steps(read(log, again)) == [1]


def test_damaged_lines_are_counted(log):
    lines = ["{", "[]", "null", '{"loss": 1}', '{"step": "<b>"}', log_line(3)]
    log.write_bytes(
        "\n".join([*lines, "\udcff{", ""]).encode("utf-8", "surrogateescape")
    )
    found = read(log)
    assert (steps(found), found["damaged"]) == ([3], 6)


def test_numbers_that_are_not_finite_are_left_out(log):
    log.write_text('{"step": 1, "loss": NaN, "mae": Infinity, "note": "a"}\n')
    assert read(log)["rows"] == [{"step": 1}]


def test_a_long_log_comes_in_parts(log, monkeypatch):
    monkeypatch.setattr(
        "transbeam.serving.studio.run_results.training_log._MOST_BYTES", 100
    )
    log.write_text("".join(f"{log_line(step)}\n" for step in range(9)))
    found, all_steps = read(log), []
    while not found["is_whole"]:
        all_steps += steps(found)
        found = read(log, found)
    assert [*all_steps, *steps(found)] == list(range(9))
    log.write_text("a" * 1000)
    with pytest.raises(ArtifactError, match="more than 100 bytes"):
        read(log)


def test_the_end_of_a_training(log):
    log.write_text(f"{log_line(1)}\n")
    assert not read(log)["is_finished"]
    Stage(log.parents[1], "training", "transbeam train").finish({}, {})
    assert read(log)["is_finished"]
    assert read_log(log.parent)["is_finished"]  # no training at all
