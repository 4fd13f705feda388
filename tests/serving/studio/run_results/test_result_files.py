"""Files of a run that the page can fetch, and all others."""

import pytest

from tests.serving.studio.run_results.sample_results import write_sample_results
from transbeam.serving.studio.run_results.result_files import list_files, read_file
from transbeam.serving.studio.studio_error import StudioError

LISTED = [
    "analysis/heads_entropy.svg",
    "analysis/report.html",
    "data/card.html",
    "evaluation/validation/report.html",
    "training/report.html",
]


@pytest.fixture
def run(tmp_path):
    (tmp_path / "secret.svg").write_text("secret")
    return write_sample_results(tmp_path / "run")


def test_listed_files(run):
    assert sorted(list_files(run)) == LISTED
    content, kind = read_file(run, "analysis/heads_entropy.svg")
    assert (content[:4], kind) == (b"<svg", "image/svg+xml")


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "data/stage.json",
        "data/manifest.json",
        "training/model.weights.h5",
        "../secret.svg",
        "analysis/../../secret.svg",
        "analysis/../analysis/heads_entropy.svg",
        "./analysis/heads_entropy.svg",
        "analysis//heads_entropy.svg",
        "analysis%2fheads_entropy.svg",
        "analysis\\heads_entropy.svg",
        "analysis/heads_entropy.svg\x00",
        "analysis/*.svg",
        "/etc/passwd",
    ],
)
def test_other_paths(run, name):
    with pytest.raises(StudioError) as error:
        read_file(run, name)
    assert error.value.is_missing


def test_links_are_left_out(run):
    (run / "analysis/link.svg").symlink_to(run.parent / "secret.svg")
    (run / "analysis/inside.svg").symlink_to(run / "analysis/heads_entropy.svg")
    elsewhere = run.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "report.html").write_text("secret")
    (run / "evaluation/test").symlink_to(elsewhere)
    assert sorted(list_files(run)) == LISTED
    with pytest.raises(StudioError):
        read_file(run, "evaluation/test/report.html")


def test_a_run_that_is_a_link_itself_is_as_its_target(run):
    link = run.with_name("link")
    link.symlink_to(run)
    assert sorted(list_files(link)) == LISTED


def test_a_large_file(run, monkeypatch):
    monkeypatch.setattr(
        "transbeam.serving.studio.run_results.result_files._MOST_BYTES", 10
    )
    with pytest.raises(StudioError, match="more than 10 bytes"):
        read_file(run, "analysis/heads_entropy.svg")
