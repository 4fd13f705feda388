"""The training stage as a whole."""

import errno
import json
import os
import shutil
import signal
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.small_run import invocations, write_corpus
from tests.trainer.conftest import eagerly
from transbeam.configs.base.errors import ArtifactError, ConfigError, UserError
from transbeam.configs.loader.model_files import training_stage
from transbeam.model.layers.block import TransformerBlock
from transbeam.pipeline.stage import data
from transbeam.trainer.base.determinism import make_deterministic
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.distribution.process_info import ProcessInfo
from transbeam.trainer.distribution.rendezvous import Rendezvous
from transbeam.trainer.evaluation.evaluate_command import evaluate_run
from transbeam.trainer.evaluation.evaluation_loop import NotFiniteError
from transbeam.trainer.loop import checkpoint
from transbeam.trainer.loop.metrics_file import read_metrics
from transbeam.trainer.loop.metrics_log import TrainingLog
from transbeam.trainer.loop.out_of_memory import OutOfMemoryError
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.optimizers.schedules import build_schedule
from transbeam.trainer.run import train

LEARN = (
    "training.steps=120",
    "training.evaluate_every=40",
    "training.batch_size=16",
    "training.schedule.peak=0.02",
    "training.schedule.warmup_steps=10",
    "model.dropout=0",
    "model.attention.dropout=0",
)


# In float16 more can go wrong than in the others.
THOROUGH_PRECISIONS = [
    pytest.param(
        precision, marks=pytest.mark.thorough(instead="test_learns_and_says_so")
    )
    for precision in ("float32", "mixed_bfloat16")
]


def weights(invocation) -> list[np.ndarray]:
    model = build_trainable(invocation.config, 120)
    path = invocation.run_folder / "training/model.weights.h5"
    keras.saving.load_weights(model, path)
    return model.get_weights()


@pytest.mark.parametrize("precision", ["mixed_float16", *THOROUGH_PRECISIONS])
def test_learns_and_says_so(run, precision) -> None:
    invocation = run(*LEARN, f"training.precision={precision}")
    result = train(invocation)
    evaluation = result["evaluation"]
    assert evaluation["nats_below_unigram"] > 0.5
    assert evaluation["loss"] == pytest.approx(
        evaluation["unigram_entropy"] - evaluation["nats_below_unigram"]
    )
    folder = invocation.run_folder / "training"
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["step"] for row in rows if "loss" in row] == list(range(10, 121, 10))
    assert [row["step"] for row in rows if "val_loss" in row] == [40, 80, 120]
    assert rows[0]["loss"] > rows[-2]["loss"]
    assert (folder / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert list((folder / "tensorboard").rglob("events.*"))
    assert evaluate_run(invocation).items() >= evaluation.items()


def result_of(invocation) -> dict[str, Any]:
    """The result that the training reported."""
    return training_stage(invocation.run_folder).load()["result"]


@eagerly
def test_second_time_is_skipped_and_a_changed_key_trains_again(trained) -> None:
    weights_file = trained().run_folder / "training/model.weights.h5"
    written = weights_file.stat().st_mtime_ns
    assert train(trained()) == {**result_of(trained()), "skipped": True}
    assert weights_file.stat().st_mtime_ns == written
    train(trained("training.schedule.peak=1e-4", "training.steps=1"))
    assert weights_file.stat().st_mtime_ns != written
    (kept,) = (trained().run_folder / "superseded").iterdir()
    assert (kept / "model.weights.h5").stat().st_mtime_ns == written


def test_blocks_are_computed_again_where_that_is_asked_for(run) -> None:
    for asked in (True, False):
        config = run(f"training.rematerialize={str(asked).lower()}").config
        blocks = [
            layer
            for layer in build_trainable(config, 120).layers
            if isinstance(layer, TransformerBlock)
        ]
        assert [block.rematerialize for block in blocks] == [asked]


@pytest.mark.parametrize("key", ["export.top_k=3", "training.log_every=3"])
def test_what_changes_no_weight_does_not_train_again(trained, key) -> None:
    assert train(trained(key)) == {**result_of(trained()), "skipped": True}


def fails_at(step: int, error: BaseException):
    """In place of `TrainingLog.add`: the step ends with an error."""
    add = TrainingLog.add

    def failing(self, numbers, input_seconds):
        if self.step + 1 == step:
            raise error
        add(self, numbers, input_seconds)

    return failing


OUT_OF_MEMORY = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")


@eagerly
def test_without_memory_it_says_what_to_change(run, monkeypatch) -> None:
    """And what is there: first nothing, then a checkpoint, from which it goes on."""
    with monkeypatch.context() as patched:
        patched.setattr(TrainingLog, "add", fails_at(1, OUT_OF_MEMORY))
        with pytest.raises(OutOfMemoryError, match=r"accumulation=2: .*GB") as told:
            train(run())
    assert "OOM when allocating" in str(told.value)
    assert "There is no checkpoint yet" in str(told.value)
    with monkeypatch.context() as patched:
        patched.setattr(TrainingLog, "add", fails_at(4, OUT_OF_MEMORY))
        with pytest.raises(OutOfMemoryError, match=r"step-00000002 is complete"):
            train(run())
    (checkpoint,) = (run().run_folder / "training/checkpoints").iterdir()
    written = (checkpoint / "state.safetensors").stat().st_mtime_ns
    keys = ("training.rematerialize=true", "training.keep_checkpoints=9")
    assert train(run(*keys))["steps"] == 4
    assert (checkpoint / "state.safetensors").stat().st_mtime_ns == written


@eagerly
def test_a_full_disk_is_not_told_as_lack_of_memory(run, monkeypatch) -> None:
    def full(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.summary, "scalar", full)
    with pytest.raises(ArtifactError, match="training: cannot be written: no space"):
        train(run())


class AtOnce:
    """An executor without threads."""

    def __init__(self, *_):
        pass

    def submit(self, call, *arguments) -> Future:
        future: Future = Future()
        try:
            future.set_result(call(*arguments))
        except ArtifactError as error:
            future.set_exception(error)
        return future

    def shutdown(self) -> None:
        pass


@eagerly
def test_a_disk_that_fills_up_ends_the_training_at_the_next_step(
    run, monkeypatch
) -> None:
    steps = []
    add = TrainingLog.add

    def counted(log, *arguments) -> None:
        add(log, *arguments)
        steps.append(log.step)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(TrainingLog, "add", counted)
    monkeypatch.setattr(checkpoint, "ThreadPoolExecutor", AtOnce)
    monkeypatch.setattr(checkpoint, "write_json", full)
    invocation = run("training.steps=6", "training.evaluate_every=3")
    with pytest.raises(ArtifactError, match="checkpoints: cannot be written: no space"):
        train(invocation)
    assert steps == [1, 2, 3, 4]

    monkeypatch.undo()
    small = shutil.disk_usage(invocation.run_folder)._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: small)
    with pytest.raises(ArtifactError, match=r"training\.keep_checkpoints"):
        train(invocation)
    monkeypatch.undo()
    assert train(invocation)["steps"] == 6


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("training.init_from=nowhere", "nowhere: has no trained model"),
        ("training.initial_weights=nowhere", "nowhere: cannot be read"),
    ],
)
def test_a_training_that_cannot_be_moves_no_other_aside(trained, key, told) -> None:
    with pytest.raises(UserError, match=told):
        train(trained(key))
    assert not (trained().run_folder / "superseded").exists()
    assert train(trained()) == {**result_of(trained()), "skipped": True}


class OtherRecords(Rendezvous):
    """Rendezvous with a worker that has other records."""

    def exchange(self, facts):
        return [facts, {**facts, "records": "other"}]


def test_workers_that_do_not_agree_move_no_training_aside(trained) -> None:
    asked = trained("training.steps=7")
    with pytest.raises(
        ArtifactError, match=r"records: \w+ at worker 0, other at worker"
    ):
        train(asked, OtherRecords(ProcessInfo()))
    assert not (asked.run_folder / "superseded").exists()
    assert train(trained()) == {**result_of(trained()), "skipped": True}


@eagerly
def test_given_up_when_nothing_is_finite_and_mended_later(run, monkeypatch) -> None:
    overrides = ("training.log_every=1", "training.max_skipped_steps=3")
    counts = Loss.counts

    def not_a_number(self, batch):
        return [count * float("nan") for count in counts(self, batch)]

    with monkeypatch.context() as patched:
        patched.setattr(Loss, "counts", not_a_number)
        with pytest.raises(NotFiniteError, match=r"step 3: .* for 3 steps in a row"):
            train(run(*overrides))
    (checkpoint,) = (run().run_folder / "training/checkpoints").iterdir()
    assert checkpoint.name == "step-00000002"
    result = train(run(*overrides))
    assert result["skipped_steps"] == 2
    assert np.isfinite(result["evaluation"]["loss"])


@eagerly
def test_skipped_steps_are_seen_between_two_lines_of_the_log(run, monkeypatch) -> None:
    counts = Loss.counts
    monkeypatch.setattr(
        Loss, "counts", lambda *of: [n * float("nan") for n in counts(*of)]
    )
    keys = ("steps=40", "log_every=1000", "evaluate_every=1000", "max_skipped_steps=3")
    with pytest.raises(NotFiniteError, match=r"step 3: .* for 3 steps in a row"):
        train(run(*(f"training.{key}" for key in keys)))


@eagerly
def test_killed_before_the_first_checkpoint_it_begins_its_log_anew(
    run, monkeypatch
) -> None:
    keys = ("training.log_every=1", "training.evaluate_every=4")
    keys += ("training.schedule={kind: linear, warmup_steps: 1}",)
    with monkeypatch.context() as patched:
        patched.setattr(TrainingLog, "add", fails_at(4, RuntimeError()))
        with pytest.raises(RuntimeError):
            train(run(*keys))
    folder = run().run_folder / "training"
    assert [row["step"] for row in read_metrics(folder)] == [1, 2, 3]
    train(run(*keys))
    rows = read_metrics(folder)
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 4]
    # It has the rate of each step.
    rates = [row["learning_rate"] for row in rows if "learning_rate" in row]
    schedule = build_schedule(run(*keys).config.training.schedule, 4, hidden_dim=16)
    assert rates == [float(schedule(step)) for step in range(4)]
    assert len(set(rates)) > 1


# At a validation, and elsewhere. By Ctrl-C, `test_ctrl_c_and_on` stops a command, and
# of graphs `test_killed_by_the_system_it_goes_on_as_if_nothing_had_been` says the same.
@eagerly
@pytest.mark.parametrize(
    ("stop_at", "number"),
    [
        *(
            pytest.param(
                step,
                signal.SIGINT,
                marks=pytest.mark.thorough(
                    instead="test_a_stop_and_going_on_give_the_same_weights"
                ),
            )
            for step in (1, 3, 5)
        ),
        (3, signal.SIGTERM),
    ],
)
def test_a_stop_and_going_on_give_the_same_weights(
    run, monkeypatch, stop_at, number
) -> None:
    overrides = ("training.steps=7", "training.evaluate_every=3")
    whole = run(*overrides, folder="whole")
    tokens = train(whole)["tokens"]

    add = TrainingLog.add

    def interrupted(self, numbers, input_seconds):
        add(self, numbers, input_seconds)
        if self.step == stop_at:
            os.kill(os.getpid(), number)

    halted = run(*overrides, folder="halted")
    with monkeypatch.context() as patched:
        patched.setattr(TrainingLog, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(halted)
    checkpoints = list((halted.run_folder / "training/checkpoints").iterdir())
    assert f"step-{stop_at:08d}" in [path.name for path in checkpoints]
    assert not (halted.run_folder / "training/stage.json").exists()
    result = train(halted)
    for a, b in zip(weights(whole), weights(halted), strict=True):
        np.testing.assert_array_equal(a, b)
    log = (halted.run_folder / "training/metrics.jsonl").read_text()
    steps = [json.loads(line)["step"] for line in log.splitlines()]
    assert steps == sorted(steps)
    assert steps[-1] == 7
    validated = [
        [
            {name: number for name, number in row.items() if name != "seconds"}
            for row in read_metrics(run.run_folder / "training")
            if "val_loss" in row
        ]
        for run in (whole, halted)
    ]
    assert validated[0] == validated[1]
    assert result["tokens"] == tokens  # of all attempts together
    rows = read_metrics(halted.run_folder / "training")
    assert result["seconds"] == rows[-1]["seconds"] > 0
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)


def test_without_data(run, tmp_path: Path) -> None:
    invocation = run()
    (invocation.run_folder / "data").rename(tmp_path / "elsewhere")
    with pytest.raises(ArtifactError, match="transbeam data"):
        train(invocation)


def test_data_made_with_other_keys(run) -> None:
    with pytest.raises(ArtifactError, match="sequence_length: 32 there, 16 here"):
        train(run("data.sequence_length=16"))


def test_altered_shard(run) -> None:
    invocation = run()
    shard = next((invocation.run_folder / "data/records").glob("train-*"))
    shard.write_bytes(shard.read_bytes()[:-3])
    with pytest.raises(ArtifactError, match="truncated"):
        train(invocation)
    assert not (invocation.run_folder / "training/metrics.jsonl").exists()


def test_no_validation(run) -> None:
    with pytest.raises(ArtifactError, match="made from other inputs"):
        train(run("data.validation_fraction=0"))


def test_a_gpu_under_jax_has_to_be_told_before_xla_begins(monkeypatch) -> None:
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: ["gpu:0"])
    with pytest.raises(ConfigError, match="XLA_FLAGS=--xla_gpu_deterministic_ops=true"):
        make_deterministic()
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_deterministic_ops=true")
    called = []
    monkeypatch.setattr(
        tf.config.experimental, "enable_op_determinism", lambda: called.append(True)
    )
    make_deterministic()
    assert called == [True]


@eagerly
def test_a_run_that_holds_nothing_out_is_trained_and_says_so(tmp_path, capsys) -> None:
    make = invocations(tmp_path, write_corpus(tmp_path / "corpus"))
    invocation = make("run", "data.validation_fraction=0", "training.steps=2")
    data(invocation)
    assert train(invocation)["summary"].startswith("training loss ")
    told = capsys.readouterr().err
    assert "no validation records (data.validation_fraction=0)" in told
    assert "the metrics below are those of training" in told


@eagerly
def test_accumulation_and_what_was_set_aside_cost_no_training(tmp_path) -> None:
    make = invocations(tmp_path, write_corpus(tmp_path / "corpus"))
    data(make("run"))
    keys = ("training.steps=2",)
    first = train(make("run", *keys))
    assert train(make("run", *keys, "training.accumulation=2"))["skipped"]
    others = (*keys, "training.schedule.peak=0.1")
    other = train(make("run", *others))
    assert "skipped" not in other
    again = train(make("run", *keys))
    assert again["skipped"]
    assert again["evaluation"] == first["evaluation"]
    assert train(make("run", *others))["evaluation"] == other["evaluation"]
