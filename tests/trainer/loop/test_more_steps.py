"""More steps than a training was planned with."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.trainer.conftest import eagerly
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.run_folder import Stage, different_keys
from transbeam.configs.loader.warmup import STEPS, WARMUP_STEPS
from transbeam.configs.schema.schedules import (
    ConstantScheduleConfig,
    CosineScheduleConfig,
    LinearScheduleConfig,
    WsdScheduleConfig,
)
from transbeam.trainer.base.training_stage import training_inputs
from transbeam.trainer.run import train
from transbeam.trainer.training_setup import can_go_on

# Dropout and an average: what a stop could lose.
ENDLESS = (
    "training.schedule={kind: inverse_sqrt, peak: 0.02}",
    "training.ema_decay=0.9",
    "training.evaluate_every=2",
    "model.dropout=0.1",
)


def weights(invocation) -> bytes:
    """The tensors of the last checkpoint: weights, optimizer, averages, dropout."""
    (*_, last) = sorted((invocation.run_folder / "training/checkpoints").iterdir())
    return (last / "state.safetensors").read_bytes()


@eagerly
def test_a_finished_training_goes_on_as_if_planned_longer(run, capsys) -> None:
    few, many = "training.steps=3", "training.steps=5"
    first = train(run(*ENDLESS, few, folder="extended"))
    extended = run(*ENDLESS, many, folder="extended")
    assert "skipped" not in train(replace(extended, console=Console()))
    told = capsys.readouterr().out
    assert "going on from step 3" in told
    assert "planned for 5 steps now, not 3" in told
    longer = run(*ENDLESS, many, folder="longer")
    train(longer)
    assert weights(extended) == weights(longer)
    # Both are there, and each is found again.
    assert train(extended)["skipped"]
    back = train(run(*ENDLESS, few, folder="extended"))
    assert (back["skipped"], back["evaluation"]) == (True, first["evaluation"])
    assert train(extended)["skipped"]


def test_a_warm_up_that_is_left_out_stays_what_it_was(run) -> None:
    def inputs(*overrides, there=None):
        return training_inputs(run(*overrides).config, "records", there)

    endless = "training.schedule={kind: constant}"
    first = inputs(endless, "training.steps=50")
    assert first[WARMUP_STEPS] == 5
    more = (endless, "training.steps=80")
    assert inputs(*more)[WARMUP_STEPS] == 8
    assert different_keys(first, inputs(*more, there=first)) == [STEPS]
    # What was the default once, of a training that is the same but for that.
    cosine = ("training.schedule={kind: cosine}", "training.steps=300")
    once = {**inputs(*cosine), WARMUP_STEPS: 100}
    assert inputs(*cosine, there=once) == once
    assert inputs(*cosine, there={**once, WARMUP_STEPS: 20})[WARMUP_STEPS] == 30
    # Not where it is another training, or is given.
    assert inputs(*more, "seed=5", there=first)[WARMUP_STEPS] == 8
    given = "training.schedule={kind: constant, warmup_steps: 8}"
    assert inputs(given, "training.steps=80", there=first)[WARMUP_STEPS] == 8


def test_a_schedule_that_ends_is_refused_with_the_ways_out(trained) -> None:
    asked = trained("training.steps=7")
    with pytest.raises(ArtifactError) as caught:
        train(asked)
    folder = asked.run_folder
    assert str(caught.value) == (
        f"{folder}/training: its 4 steps are done, and the learning rate went down to "
        "their end (training.schedule.kind=cosine): going on to 7 would not give what "
        "so many steps in one go give. Instead, either\n"
        f"  retrain all 7: rename {folder}/training first, and it is kept;\n"
        "  or begin another run with its weights, for 3 steps: --run OTHER --set "
        f"model.init_from={folder} --set training.steps=3;\n"
        "  or leave training.steps=4. With a schedule of the kinds constant, "
        "inverse_sqrt, noam, more steps go on where a training ended"
    )
    assert not (folder / "superseded").exists()
    assert train(trained())["skipped"]


def training(folder: Path, inputs, step: int, *, finished: bool) -> Stage:
    stage = Stage(folder, "training", "transbeam train CONFIG")
    stage.begin(inputs)
    (stage.path / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
    if finished:
        stage.finish(inputs, {})
    return stage


INPUTS = {STEPS: 20, "seed": 1}


@pytest.mark.parametrize(
    ("schedule", "done", "steps", "goes_on"),
    [
        (ConstantScheduleConfig(warmup_steps=2), 8, 30, True),
        (ConstantScheduleConfig(warmup_steps=2), 8, 10, True),
        (ConstantScheduleConfig(warmup_steps=2), 8, 5, False),
        (WsdScheduleConfig(warmup_steps=2, decay_fraction=0.5), 10, 30, True),
        (WsdScheduleConfig(warmup_steps=2, decay_fraction=0.5), 11, 30, False),
        (WsdScheduleConfig(warmup_steps=2, decay_fraction=0.5), 8, 14, False),
        (CosineScheduleConfig(warmup_steps=2), 2, 30, True),
        (LinearScheduleConfig(warmup_steps=2), 3, 30, False),
    ],
)
def test_an_unfinished_training_goes_on_where_its_rates_are_the_same(
    tmp_path, schedule, done, steps, goes_on
) -> None:
    stage = training(tmp_path, INPUTS, done, finished=False)
    assert can_go_on(stage, {**INPUTS, STEPS: steps}, schedule) == goes_on


def test_what_is_trained_anew(tmp_path) -> None:
    schedule = ConstantScheduleConfig(warmup_steps=2)
    stage = training(tmp_path, INPUTS, 20, finished=True)
    more = {**INPUTS, STEPS: 30}
    assert can_go_on(stage, more, schedule)
    assert not can_go_on(stage, {**more, "seed": 2}, schedule)
    assert not can_go_on(stage, {**INPUTS, STEPS: 10}, schedule)
    assert not can_go_on(stage, INPUTS, schedule)
    # Imported, or its checkpoints were deleted: there is no optimizer to go on with.
    (stage.path / "checkpoints/step-00000020").rmdir()
    assert not can_go_on(stage, more, schedule)


def test_other_code_does_not_go_on_with_a_training(tmp_path, monkeypatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("transbeam.configs.loader.run_folder.VERSION", "0.0.1")
        stage = training(tmp_path, INPUTS, 20, finished=True)
    more = {**INPUTS, STEPS: 30}
    assert not can_go_on(stage, more, ConstantScheduleConfig(warmup_steps=2))
