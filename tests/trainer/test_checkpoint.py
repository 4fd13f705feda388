"""A checkpoint is the whole state, or it is not there."""

import shutil
from pathlib import Path

import keras
import numpy as np
import pytest

from configs.errors import ArtifactError
from trainer.checkpoint import (
    Position,
    list_checkpoints,
    restore_checkpoint,
    save_checkpoint,
    save_weights,
)


def small_model(width: int = 4, seed: int = 0) -> keras.Model:
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(1)(
        keras.layers.Dropout(0.5, seed=seed)(keras.layers.Dense(width)(inputs))
    )
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.AdamW(0.1), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def fit(model: keras.Model, steps: int) -> None:
    random = np.random.default_rng(1)
    x, y = random.normal(size=(8, 3)), random.normal(size=(8, 1))
    model.fit(x, y, batch_size=8, epochs=steps, shuffle=False, verbose=0)


def state(model: keras.Model) -> list[np.ndarray]:
    return [np.asarray(v) for v in [*model.variables, *model.optimizer.variables]]


def test_going_on_from_a_checkpoint_changes_nothing(tmp_path: Path) -> None:
    whole = small_model()
    fit(whole, 5)
    halted = small_model()
    fit(halted, 2)
    path = save_checkpoint(tmp_path, halted, Position(2, 16), keep=1)
    resumed = small_model(seed=9)
    assert restore_checkpoint(path, resumed) == Position(2, 16)
    fit(resumed, 3)
    for a, b in zip(state(whole), state(resumed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_keeps_the_newest(tmp_path: Path) -> None:
    model = small_model()
    for step in (9, 10, 100):
        save_checkpoint(tmp_path, model, Position(step, step), keep=2)
    assert [path.name for path in list_checkpoints(tmp_path)] == [
        "step-00000010",
        "step-00000100",
    ]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    model = small_model()
    save_checkpoint(tmp_path, model, Position(1, 1), keep=2)

    def fails(*_args, **_kwargs) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(keras.saving, "save_weights", fails)
        with pytest.raises(ArtifactError, match="no space is left"):
            save_checkpoint(tmp_path, model, Position(2, 2), keep=2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]

    # HDF5 would take the process down: nothing may be begun on a disk that is full.
    full = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    monkeypatch.setattr(keras.saving, "save_weights", None)
    for write in (
        lambda: save_checkpoint(tmp_path, model, Position(2, 2), keep=2),
        lambda: save_weights(model, tmp_path / "model.weights.h5"),
    ):
        with pytest.raises(ArtifactError, match="no space is left"):
            write()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


@pytest.mark.parametrize("file", ["state.weights.h5", "state.json"])
@pytest.mark.parametrize("damage", ["truncate", "remove"])
def test_damaged_checkpoints_are_refused(tmp_path: Path, file, damage) -> None:
    path = save_checkpoint(tmp_path, small_model(), Position(1, 1), keep=1)
    if damage == "remove":
        (path / file).unlink()
    else:
        content = (path / file).read_bytes()
        (path / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(ArtifactError, match="not a checkpoint of this run"):
        restore_checkpoint(path, small_model())


def test_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, small_model(), Position(1, 1), keep=1)
    with pytest.raises(ArtifactError, match="not a checkpoint of this run"):
        restore_checkpoint(path, small_model(width=5))


def test_checkpoint_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, small_model(), Position(1, 1), keep=1)
    rest = path / "state.json"
    rest.write_text(rest.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(ArtifactError, match="format 2, this version"):
        restore_checkpoint(path, small_model())
