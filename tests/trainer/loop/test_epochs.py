"""Epochs instead of steps: the same training, stopped, continued, used and extended."""

import json
from dataclasses import replace

import pytest

from tests.trainer.conftest import eagerly
from tests.trainer.loop.test_more_steps import ENDLESS, weights
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.model_files import training_stage
from transbeam.configs.loader.yaml_config import load_run
from transbeam.model.__main__ import main as check
from transbeam.pipeline.records.manifest import Manifest
from transbeam.serving.base.trained_run import training_record
from transbeam.trainer.evaluation.run_model import find_run_model
from transbeam.trainer.loop.metrics_log import TrainingLog
from transbeam.trainer.planned_runs import PlannedRun, is_trained
from transbeam.trainer.run import train

# Five steps of four, if the records are as many as the tests assert.
EPOCHS, STEPS = "training.epochs=0.05", "training.steps=5"


def records(manifest: Manifest) -> int:
    return sum(shard.records for shard in manifest.split("train"))


def stop_at(step: int):
    add = TrainingLog.add

    def stopping(self, numbers, input_seconds):
        if self.step + 1 == step:
            raise KeyboardInterrupt
        add(self, numbers, input_seconds)

    return stopping


@eagerly
def test_epochs_train_as_their_steps_do_and_go_on(
    run, manifest, monkeypatch, capsys
) -> None:
    per_epoch = records(manifest) / 4
    assert 4 < 0.05 * per_epoch <= 5, "the fixture's records have changed"
    train(run(*ENDLESS, STEPS, folder="steps"))
    with monkeypatch.context() as patched:
        patched.setattr(TrainingLog, "add", stop_at(4))
        with pytest.raises(KeyboardInterrupt):
            train(run(*ENDLESS, EPOCHS, folder="epochs"))
    stopped = run(*ENDLESS, EPOCHS, folder="epochs")
    result = train(replace(stopped, console=Console()))
    told = capsys.readouterr().out
    length = f"0.05 epochs of {records(manifest)} records = 5 steps of 4\n"
    assert length in told
    assert "going on from step 2" in told
    assert result["epochs"] == pytest.approx(5 / per_epoch)
    assert weights(stopped) == weights(run(folder="steps"))
    stage = training_stage(stopped.run_folder)
    assert stage.inputs() == training_stage(run(folder="steps").run_folder).inputs()
    saved = load_run(stage.path / "run.yaml").training
    assert (saved.steps, saved.epochs) == (5, None)
    # One is the other: neither trains again.
    assert train(run(*ENDLESS, STEPS, folder="epochs"))["skipped"]
    assert train(run(*ENDLESS, EPOCHS, folder="steps"))["skipped"]
    # And more epochs are more steps.
    more = run(*ENDLESS, "training.epochs=0.06", folder="epochs")
    assert "skipped" not in train(replace(more, console=Console()))
    assert "planned for 6 steps now, not 5" in capsys.readouterr().out


# The fixture trains four steps.
SAME, OTHER = "training.epochs=0.04", "training.epochs=0.05"


def test_what_uses_a_model_counts_the_same_steps(trained, manifest, capsys) -> None:
    assert 3 < 0.04 * records(manifest) / 4 <= 4, "the fixture's records have changed"
    same, other = trained(SAME), trained(OTHER)
    folder = same.run_folder
    assert find_run_model(same, on_test=False).fingerprint
    assert training_record(folder, same.config)["result"]["steps"] == 4
    for using in (
        lambda: find_run_model(other, on_test=False),
        lambda: training_record(folder, other.config),
    ):
        with pytest.raises(Exception, match=r"training.steps: 4 there, 5 here"):
            using()
    assert is_trained(PlannedRun(folder, same.config_file, (SAME,), same.config))
    other_run = PlannedRun(folder, other.config_file, (OTHER,), other.config)
    assert not is_trained(other_run)
    for override, differing in ((SAME, False), (OTHER, True)):
        words = ["check", str(same.config_file), "--set", override, "--json"]
        assert check([*words, "--run", str(folder)]) == 0
        lines = json.loads(capsys.readouterr().out)["differences"]
        assert any("training.epochs" in line for line in lines) is differing
