"""A checkpoint is the whole state, or it is not there."""

import json
import math
import shutil
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import get_args

import keras
import numpy as np
import pytest
import safetensors.numpy

from tests.trainer.batches import OBJECTIVES, random_batch, small_model
from tests.trainer.conftest import eagerly
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.optimizers import (
    AdafactorConfig,
    AdamWConfig,
    MuonConfig,
    Optimizer,
)
from transbeam.configs.schema.pruning import PruningConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.model.weights.training_checkpoints import list_checkpoints
from transbeam.trainer.base.weight_files import save_weights
from transbeam.trainer.loop import checkpoint
from transbeam.trainer.loop.checkpoint import (
    Checkpoints,
    best_checkpoint,
    check_rows,
    read_matmul_dtype,
    restore_checkpoint,
    take_snapshot,
    write_checkpoint,
)
from transbeam.trainer.loop.weight_pruner import WeightPruner, prunable_weights
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.targets import make_targets
from transbeam.trainer.optimizers.build import build_optimizer
from transbeam.trainer.optimizers.schedules import Warmup
from transbeam.trainer.step.build import build_step
from transbeam.trainer.step.state import TrainState

CAUSAL = OBJECTIVES["causal"]
# The last pruning is after the checkpoint, in which the masks of the first have to be.
PRUNING = PruningConfig(sparsity=0.6, initial_sparsity=0.3, end_step=4, interval=4)
CONFIG = TrainingConfig(steps=100, ema_decay=0.9, pruning=PRUNING)
# Lion keeps the first moments alone, which AdamW keeps, too.
OFTEN = (AdafactorConfig, AdamWConfig, MuonConfig)
THOROUGH = pytest.mark.thorough(
    instead="test_going_on_from_a_checkpoint_changes_nothing"
)


def new_state(
    objective: str = "causal",
    config: TrainingConfig = CONFIG,
    optimizer: type[Optimizer] = AdamWConfig,
) -> TrainState:
    model = small_model(OBJECTIVES[objective], dropout=0.5)
    made = build_optimizer(optimizer(), Warmup(0.01, 4), model.trainable_variables)
    return TrainState(model, made, config, prunable_weights(model, config.pruning))


def run(state: TrainState, first: int, last: int) -> None:
    update = build_step(state, Loss(make_targets(CAUSAL)), CONFIG)
    pruner = WeightPruner(state, PRUNING)
    for number in range(first, last):
        pruner.prune(number)
        update(random_batch(CAUSAL, 4, seed=number))


def arrays(state: TrainState) -> list[np.ndarray]:
    return [
        keras.ops.convert_to_numpy(variable.value)
        for variables in state.variables.values()
        for variable in variables
    ]


def assert_same(a: TrainState, b: TrainState) -> None:
    for x, y in zip(arrays(a), arrays(b), strict=True):
        np.testing.assert_array_equal(x, y)


@eagerly
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.__name__, marks=() if kind in OFTEN else THOROUGH)
        for kind in get_args(Optimizer)
    ],
)
def test_going_on_from_a_checkpoint_changes_nothing(tmp_path: Path, kind) -> None:
    whole = new_state(optimizer=kind)
    run(whole, 0, 5)
    halted = new_state(optimizer=kind)
    run(halted, 0, 2)
    halted.skipped.assign(3)
    whole.skipped.assign(3)
    path = write_checkpoint(tmp_path, take_snapshot(halted, 2))
    resumed = new_state(optimizer=kind)
    run(resumed, 50, 51)  # whatever was there before
    assert restore_checkpoint(path, resumed) == 2
    run(resumed, 2, 5)
    assert_same(whole, resumed)


@eagerly
def test_a_snapshot_does_not_move_with_the_training(tmp_path: Path) -> None:
    state, halted = new_state(), new_state()
    run(halted, 0, 1)
    run(state, 0, 1)
    snapshot = take_snapshot(state, 1)
    run(state, 1, 4)
    path = write_checkpoint(tmp_path, snapshot)
    restored = new_state()
    restore_checkpoint(path, restored)
    assert_same(restored, halted)


@pytest.mark.parametrize(
    ("metric", "best"), [("loss", 10), ("accuracy", 9), ("mae", 9), ("unknown", None)]
)
def test_keeps_the_newest_and_the_best(tmp_path: Path, metric, best) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2, best_metric=metric)
    state = new_state()
    checkpoints.save(state, 9, {"loss": 3.0, "accuracy": 0.5, "mae": 1.0})
    checkpoints.save(state, 10, {"loss": 1.0, "accuracy": 0.4, "mae": 2.0})
    checkpoints.save(state, 100, {"loss": math.nan, "accuracy": 0.9, "mae": 0.0})
    checkpoints.save(state, 101)
    checkpoints.save(state, 102, {"loss": 1.5, "accuracy": math.nan, "mae": 2.0})
    checkpoints.close()
    kept = [101, 102] if best is None else [best, 101, 102]
    names = [f"step-{step:08d}" for step in kept]
    assert [path.name for path in list_checkpoints(tmp_path)] == names
    found = best_checkpoint(tmp_path, metric)
    assert (found and found.name) == (None if best is None else names[0])


def test_a_checkpoint_of_an_older_version_has_a_loss_alone(tmp_path: Path) -> None:
    for step, loss in {1: 2.0, 2: 1.0, 3: None}.items():
        path = write_checkpoint(tmp_path, take_snapshot(new_state(), step))
        described = json.loads((path / "state.json").read_text("utf-8"))
        del described["validation"]
        described["validation_loss"] = loss
        (path / "state.json").write_text(json.dumps(described), "utf-8")
    assert best_checkpoint(tmp_path).name == "step-00000002"
    assert best_checkpoint(tmp_path, "accuracy") is None


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    state = new_state()
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.save(state, 1)
    checkpoints.wait()

    def fails(*_args, **_kwargs) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(safetensors.numpy, "save_file", fails)
        checkpoints.save(state, 2)
        with pytest.raises(ArtifactError, match="no space is left"):
            checkpoints.save(state, 3)
        checkpoints.save(state, 4)
        with pytest.raises(ArtifactError, match="no space is left"):
            checkpoints.close()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]

    full = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    with pytest.raises(ArtifactError, match="no space is left"):
        write_checkpoint(tmp_path, take_snapshot(state, 2))
    # HDF5 would take the process down: nothing may be begun on a disk that is full.
    monkeypatch.setattr(keras.saving, "save_weights", None)
    with pytest.raises(ArtifactError, match="no space is left"):
        save_weights(state.model, tmp_path / "model.weights.h5")
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_a_write_that_failed_is_told_before_the_next_one(
    tmp_path: Path, monkeypatch
) -> None:
    state = new_state()
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.raise_failure()  # nothing was written yet
    begins, fails = threading.Event(), threading.Event()

    def fail(*_args, **_kwargs) -> None:
        begins.set()
        fails.wait()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.numpy, "save_file", fail)
    checkpoints.save(state, 1)
    begins.wait()
    checkpoints.raise_failure()  # it does not wait for the write
    fails.set()
    with pytest.raises(ArtifactError, match="no space is left"):
        until_told(checkpoints)
    checkpoints.raise_failure()  # it was told once
    checkpoints.close()


def until_told(checkpoints: Checkpoints) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        checkpoints.raise_failure()
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("there", "left", "needed"),
    [(0, 10, 4), (2, 10, 2), (3, 10, 1), (5, 10, 1), (0, 3, 3), (0, 1, 1), (3, 1, 1)],
)
def test_a_training_needs_room_for_its_checkpoints(
    tmp_path: Path, monkeypatch, there: int, left: int, needed: int
) -> None:
    state = new_state()
    for step in range(there):
        write_checkpoint(tmp_path, take_snapshot(state, step))
    size = sum(
        4 * math.prod(variable.shape)
        for variables in state.variables.values()
        for variable in variables
    )
    enough = math.ceil(1.1 * needed * size) + 1_000_000  # as before a write
    usage = shutil.disk_usage(tmp_path)
    checkpoints = Checkpoints(tmp_path, keep=2)
    for free, fits in ((enough, True), (enough - 2, False)):
        monkeypatch.setattr(
            shutil, "disk_usage", lambda _, free=free: usage._replace(free=free)
        )
        with (
            nullcontext()
            if fits
            else pytest.raises(ArtifactError, match=f"space: {needed} more of")
        ):
            checkpoints.require_space(state, left)
        # The other workers write nothing.
        Checkpoints(tmp_path, keep=2, writes=False).require_space(state, left)
    checkpoints.close()


def test_what_a_kill_left_is_taken_away_and_never_read(tmp_path: Path) -> None:
    left = tmp_path / ".step-00000007.12.tmp"
    left.mkdir()
    (left / "state.safetensors").write_bytes(b"half")
    assert list_checkpoints(tmp_path) == []
    Checkpoints(tmp_path, keep=1).close()
    assert not left.exists()


@pytest.mark.parametrize("file", ["state.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["truncate", "remove", "flip"])
def test_damaged_checkpoints_are_refused(tmp_path: Path, file, damage) -> None:
    path = write_checkpoint(tmp_path, take_snapshot(new_state(), 1))
    content = bytearray((path / file).read_bytes())
    if damage == "remove":
        (path / file).unlink()
    elif damage == "truncate":
        (path / file).write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 0x80
        (path / file).write_bytes(content)
    state = new_state()
    before = arrays(state)
    with pytest.raises(ArtifactError, match="not a checkpoint of this run"):
        restore_checkpoint(path, state)
    for a, b in zip(before, arrays(state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_differs_in_another_model_is_named(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, take_snapshot(new_state(), 1))
    with pytest.raises(ArtifactError, match="embeddings_norm/gamma is not there"):
        restore_checkpoint(path, new_state("classification"))
    without_averages = new_state(config=TrainingConfig(steps=100))
    with pytest.raises(ArtifactError, match=r"the average of .* is there and not here"):
        restore_checkpoint(path, without_averages)


def test_checkpoint_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, take_snapshot(new_state(), 1))
    file = path / "state.json"
    newer = {**json.loads(file.read_text()), "format": checkpoint.FORMAT + 1}
    file.write_text(json.dumps(newer))
    with pytest.raises(ArtifactError, match="format 3, this version"):
        restore_checkpoint(path, new_state())


def test_a_weight_that_is_not_finite_is_named(tmp_path: Path) -> None:
    state = new_state()
    weight = state.model.trainable_variables[3]
    weight.assign(np.full(weight.shape, np.nan))
    path = write_checkpoint(tmp_path, take_snapshot(state, 1))
    with pytest.raises(ArtifactError, match=f"{weight.path} is not finite"):
        restore_checkpoint(path, new_state())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", None])
def test_the_dtype_of_products_is_kept(tmp_path: Path, dtype) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1, matmul_dtype=dtype)
    checkpoints.save(new_state(), 1)
    checkpoints.close()
    [path] = list_checkpoints(tmp_path)
    assert read_matmul_dtype(path) == dtype


def test_a_dtype_of_products_that_is_none_is_refused(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, take_snapshot(new_state(), 1))
    file = path / "state.json"
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({**whole, "matmul_dtype": "bfloat17"}))
    with pytest.raises(ArtifactError, match=r"matmul_dtype is 'bfloat17'\. Remove"):
        read_matmul_dtype(path)
    del whole["matmul_dtype"]  # written before there was a choice
    file.write_text(json.dumps(whole))
    assert read_matmul_dtype(path) is None
    file.write_text("[]")
    with pytest.raises(ArtifactError, match="not a checkpoint of this run"):
        read_matmul_dtype(path)


def test_other_batches_are_not_entered(tmp_path: Path) -> None:
    snapshot = take_snapshot(new_state(), 1)
    path = write_checkpoint(tmp_path, snapshot, rows=[64, 48])
    check_rows(path, [64, 48])
    with pytest.raises(ArtifactError, match=r"of \[64, 48\] .* have \[60, 48\]"):
        check_rows(path, [60, 48])
