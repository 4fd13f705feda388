"""The share of an update that is added, with exact numbers."""

import keras
import numpy as np
import pytest

from tests.model.gradients import value_and_gradients
from transbeam.model.layers.residual import (
    DropPathResidual,
    Residual,
    ReZeroResidual,
    ScaledResidual,
)

INPUTS = np.full((400, 2, 3), 10.0, "float32")
UPDATE = np.ones((400, 2, 3), "float32")


@pytest.mark.parametrize(
    ("residual", "expected"),
    [
        (Residual(dropout=0.5), 11.0),
        (ScaledResidual(num_updates=16, dropout=0.5), 10.25),
        (ReZeroResidual(dropout=0.5), 10.0),
        (DropPathResidual(rate=0.5, dropout=0.5), 11.0),
    ],
)
def test_outside_of_training_nothing_is_dropped(residual, expected):
    np.testing.assert_array_equal(
        residual(INPUTS, UPDATE), np.full_like(INPUTS, expected)
    )


@pytest.mark.parametrize(
    ("residual", "kept"),
    [
        (Residual(dropout=0.75, seed=1), 4.0),
        (ScaledResidual(num_updates=16, dropout=0.75, seed=1), 1.0),
    ],
)
def test_dropout_of_single_numbers(residual, kept):
    update = np.asarray(residual(INPUTS, UPDATE, training=True)) - 10
    assert set(np.unique(update)) == {0.0, kept}
    # 2,400 draws: four standard deviations are 0.035.
    assert abs((update > 0).mean() - 0.25) < 0.035


def test_drop_path_drops_whole_rows():
    residual = DropPathResidual(rate=0.75, seed=1)
    update = np.asarray(residual(INPUTS, UPDATE, training=True)) - 10
    rows = update.reshape(400, -1)
    assert (rows == rows[:, :1]).all()
    assert set(np.unique(update)) == {0.0, 4.0}
    # 400 draws: four standard deviations are 0.087.
    assert abs((rows[:, 0] > 0).mean() - 0.25) < 0.087


def test_drop_path_and_dropout_together():
    residual = DropPathResidual(rate=0.5, dropout=0.5, seed=1)
    update = np.asarray(residual(INPUTS, UPDATE, training=True)) - 10
    assert set(np.unique(update)) == {0.0, 4.0}
    left_out = (update == 0).reshape(400, -1).all(axis=1)
    # A row is left out, or all six numbers of it are by chance: 1/2 + 1/2 / 64.
    assert abs(left_out.mean() - 0.508) < 0.1
    assert 0.35 < (update[~left_out] == 0).mean() < 0.65


def test_rezero_learns_how_much_to_add():
    residual = ReZeroResidual()
    residual.build(INPUTS.shape)
    assert [weight.path.split("/")[-1] for weight in residual.weights] == ["scale"]
    update = keras.Variable(UPDATE)
    _, slopes = value_and_gradients(
        lambda: residual(INPUTS, update), [residual.scale, update]
    )
    assert slopes[0] == 2400.0  # the updates' sum
    assert not slopes[1].any()  # a sub-layer learns nothing while its scale is 0
    residual.scale.assign(0.5)
    np.testing.assert_array_equal(residual(INPUTS, UPDATE), np.full_like(INPUTS, 10.5))


def test_the_scaled_sum_keeps_its_variance():
    rng = np.random.default_rng(0)
    residual = ScaledResidual(num_updates=16)
    x = np.zeros((64, 4, 64), "float32")
    for _ in range(2 * 8):
        x = residual(x, rng.normal(size=x.shape).astype("float32"))
    assert abs(np.var(x) - 1) < 0.05
