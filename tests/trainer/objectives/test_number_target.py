"""Targets that are numbers, of which some may be missing."""

import numpy as np
import pytest

from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.targets import NumberTarget

BATCH = {
    "numbers": np.array([[2.0, 9.0], [-3.0, 1.0]], "float32"),
    "weights": np.array([[1.0, 0.0], [1.0, 1.0]], "float32"),
}
TARGET = NumberTarget("score", "numbers", "weights")


def test_a_number_without_weight_costs_nothing() -> None:
    loss = Loss((TARGET,))
    scores = {"score": np.array([[1.0, 0.0], [0.0, 1.0]], "float32")}
    total, sums = loss(scores, BATCH, loss.counts(BATCH))
    assert float(total) == pytest.approx((1 + 9 + 0) / 3)
    assert float(sums["score"]["absolute_error"]) == 1 + 3 + 0
    assert float(sums["score"]["count"]) == 3


def test_the_best_guess_without_input_is_of_the_numbers_with_weight() -> None:
    sums = TARGET.input_free_sums(BATCH)
    assert sums.tolist() == [3, 0, 14]
    assert TARGET.input_free_loss(sums) == 14 / 3
