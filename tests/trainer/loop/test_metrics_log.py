"""The numbers of a training's log, by hand."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from transbeam.configs.cli.progress import SilentBar
from transbeam.trainer.loop import metrics_log as module
from transbeam.trainer.loop.metrics_file import read_metrics
from transbeam.trainer.loop.metrics_log import TrainingLog, cut_metrics


def numbers(cost: float, tokens: int) -> dict:
    sums = {"cost": cost, "count": 10.0, "correct": 5.0}
    of = {"sums": {"logits": {name: np.float32(x) for name, x in sums.items()}}}
    return of | {
        "tokens": np.int32(tokens),
        "gradient_norm": np.float32(2.0),
        "gradient_norms": np.float32([cost / 10, 0.5]),
        "skipped": np.bool_(False),
    }


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    fake = SimpleNamespace(perf_counter=lambda: clock.now)
    monkeypatch.setattr(module, "time", fake)
    return clock


def new_log(folder: Path, step: int = 0) -> TrainingLog:
    state = SimpleNamespace(
        skipped_in_a_row=SimpleNamespace(numpy=lambda: 0),
        last_learning_rate=lambda: 0.125,
        parts={"embeddings": [0], "head": [1, 2]},
    )
    return TrainingLog(
        folder,
        SilentBar(),
        state,  # pyright: ignore[reportArgumentType]
        step=step,
        every=2,
        max_skipped=20,
        step_seconds=1.0,
    )


def test_rates_by_hand(tmp_path: Path, clock) -> None:
    log = new_log(tmp_path)
    log.add(numbers(30.0, 100), input_seconds=0.25)
    clock.now += 4.0
    log.add(numbers(10.0, 300), input_seconds=0.75)
    assert read_metrics(tmp_path) == [
        {
            "step": 2,
            "seconds": 4.0,
            "tokens": 400,
            "loss": 2.0,
            "accuracy": 0.5,
            "gradient_norm": 2.0,
            "gradient_norms": {"embeddings": 2.0, "head": 0.5},
            "learning_rate": 0.125,
            "tokens_per_second": 100,
            "mfu": 0.5,  # two steps of one second in four
            "input_wait": 0.25,
        }
    ]

    # A stop of a minute is no part of the training.
    clock.now += 60.0
    again = new_log(tmp_path, step=2)
    again.add(numbers(10.0, 100), input_seconds=0.0)
    clock.now += 1.0
    again.add(numbers(10.0, 100), input_seconds=0.0)
    row = read_metrics(tmp_path)[-1]
    assert (row["step"], row["seconds"], row["tokens"]) == (4, 5.0, 600)
    assert row["tokens_per_second"] == 200
    # Twice as fast as its arithmetic alone: the device was tried under other load.
    assert "mfu" not in row
    again.add(numbers(10.0, 100), input_seconds=0.0)
    clock.now += 8.0
    again.add(numbers(10.0, 100), input_seconds=0.0)
    assert "mfu" not in read_metrics(tmp_path)[-1]


def steps_in(folder: Path, tag: str = "loss") -> list[int]:
    """Of every loss that TensorBoard would draw."""
    events = [
        tf.compat.v1.Event.FromString(record)
        for file in sorted((folder / "tensorboard").rglob("events.*"))
        for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
    ]
    return [e.step for e in events if any(v.tag == tag for v in e.summary.value)]


def test_what_is_done_again_is_written_once(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for _ in range(6):
        log.add(numbers(30.0, 100), input_seconds=0.0)
    log.close()
    assert steps_in(tmp_path) == [2, 4, 6]
    assert steps_in(tmp_path, "gradient_norms/head") == [2, 4, 6]
    (file,) = (tmp_path / "tensorboard/train").glob("events.*")
    with file.open("ab") as stream:
        stream.write(b"\x20")  # what a kill left of the next

    cut_metrics(tmp_path, 4)
    assert steps_in(tmp_path) == [2, 4]
    assert [row["step"] for row in read_metrics(tmp_path)] == [2, 4]
    log = new_log(tmp_path, step=4)
    for _ in range(2):
        log.add(numbers(30.0, 100), input_seconds=0.0)
    log.close()
    assert sorted(steps_in(tmp_path)) == [2, 4, 6]
    assert not list(tmp_path.rglob(".*"))
