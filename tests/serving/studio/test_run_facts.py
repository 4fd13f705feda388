"""Runs of the page: trained ones, and those in training."""

import pytest

from tests.serving.conftest import TINY
from transbeam.configs.base.errors import UserError
from transbeam.configs.loader.run_folder import Stage, save_config
from transbeam.serving.studio.run_facts import find_runs


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("trained", "training", "only_data"):
        folder = tmp_path / "runs" / name
        (folder / "data").mkdir(parents=True)
        save_config(folder / "data", TINY)
        if name != "only_data":
            Stage(folder, "training", "transbeam train").begin({})
    finish(tmp_path / "runs/trained")
    return tmp_path / "runs"


def finish(folder):
    save_config(folder / "training", TINY)
    Stage(folder, "training", "transbeam train").finish({}, {})


def test_runs_in_training_are_found(runs):
    trained, training = find_runs([])
    assert (trained.name, trained.is_trained) == ("trained", True)
    assert (training.name, training.is_trained) == ("training", False)
    assert training.why_no_maps == "its training is not finished"
    assert training.as_json()["layers"] == TINY.model.num_layers
    finish(runs / "training")
    assert [run.is_trained for run in find_runs([])] == [True, True]


def test_a_run_without_a_training_is_refused(runs):
    with pytest.raises(UserError, match="transbeam train"):
        find_runs([runs / "only_data"])
