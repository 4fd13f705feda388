"""The training stage as a whole."""

import json
import os
import signal
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from configs.errors import ArtifactError
from trainer.evaluation.run import evaluate_run
from trainer.log import NotFiniteError, TrainingLog, read_metrics
from trainer.losses import Loss
from trainer.memory import OutOfMemoryError
from trainer.run import build_trainable, train

LEARN = (
    "training.steps=120",
    "training.evaluate_every=40",
    "training.batch_size=16",
    "training.schedule.peak=0.02",
    "training.schedule.warmup_steps=10",
    "model.dropout=0",
    "model.attention.dropout=0",
)


def weights(invocation) -> list[np.ndarray]:
    model = build_trainable(invocation.config, 120)
    path = invocation.run_folder / "training/model.weights.h5"
    keras.saving.load_weights(model, path)
    return model.get_weights()


def test_learns_and_says_so(run) -> None:
    invocation = run(*LEARN)
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


def test_second_time_is_skipped_and_a_changed_key_trains_again(run) -> None:
    first = train(run())
    weights_file = run().run_folder / "training/model.weights.h5"
    written = weights_file.stat().st_mtime_ns
    assert train(run()) == {**first, "skipped": True}
    assert weights_file.stat().st_mtime_ns == written
    train(run("training.schedule.peak=1e-4"))
    assert weights_file.stat().st_mtime_ns != written
    (kept,) = (run().run_folder / "superseded").iterdir()
    assert (kept / "model.weights.h5").stat().st_mtime_ns == written


def test_trains_in_mixed_bfloat16(run) -> None:
    result = train(run("training.precision=mixed_bfloat16"))
    assert 1 < result["evaluation"]["loss"] < 10


@pytest.mark.parametrize("key", ["export.top_k=3", "training.log_every=3"])
def test_what_changes_no_weight_does_not_train_again(run, key) -> None:
    first = train(run())
    assert train(run(key)) == {**first, "skipped": True}


def test_without_memory_it_says_what_to_change(run, monkeypatch) -> None:
    def no_memory(self, *numbers):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")

    train(run("training.steps=2"))
    with monkeypatch.context() as patched:
        patched.setattr(TrainingLog, "add", no_memory)
        with pytest.raises(OutOfMemoryError, match=r"accumulation=2: .*GB") as told:
            train(run())
    assert "OOM when allocating" in str(told.value)
    assert train(run())["steps"] == 4


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


# At a validation, and elsewhere.
@pytest.mark.parametrize(
    "stop_at", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 5)), 3]
)
def test_ctrl_c_and_going_on_give_the_same_weights(run, monkeypatch, stop_at) -> None:
    overrides = ("training.steps=7", "training.evaluate_every=3")
    whole = run(*overrides, folder="whole")
    train(whole)

    add = TrainingLog.add

    def interrupted(self, numbers, input_seconds):
        add(self, numbers, input_seconds)
        if self.step == stop_at:
            os.kill(os.getpid(), signal.SIGINT)

    halted = run(*overrides, folder="halted")
    with monkeypatch.context() as patched:
        patched.setattr(TrainingLog, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(halted)
    checkpoints = list((halted.run_folder / "training/checkpoints").iterdir())
    assert f"step-{stop_at:08d}" in [path.name for path in checkpoints]
    assert not (halted.run_folder / "training/stage.json").exists()
    train(halted)
    for a, b in zip(weights(whole), weights(halted), strict=True):
        np.testing.assert_array_equal(a, b)
    log = (halted.run_folder / "training/metrics.jsonl").read_text()
    steps = [json.loads(line)["step"] for line in log.splitlines()]
    assert steps == sorted(steps)
    assert steps[-1] == 7
    validated = [
        [row for row in read_metrics(run.run_folder / "training") if "val_loss" in row]
        for run in (whole, halted)
    ]
    assert validated[0] == validated[1]


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
