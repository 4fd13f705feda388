"""The cost of sets of labels, by hand."""

import numpy as np
import pytest
from keras import ops

from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.targets import LabelSetTarget

# The probabilities of two labels of two texts, and which of them apply.
PROBABILITIES = np.array([[0.8, 0.4], [0.1, 0.5]])
SCORES = np.log(PROBABILITIES / (1 - PROBABILITIES)).astype("float32")
APPLIES = np.array([[1, 0], [1, 1]], "int32")
NATS = -np.log([[0.8, 0.6], [0.1, 0.5]])


def cost(target: LabelSetTarget, **options: float):
    found = target.cost(SCORES, APPLIES, **options)
    return [ops.convert_to_numpy(part) for part in found]


def test_each_label_is_a_choice_of_its_own() -> None:
    guesses, costs, extra, correct = cost(LabelSetTarget("logits", "label"))
    np.testing.assert_allclose(costs, NATS, rtol=1e-5)
    assert guesses.tolist() == [[1, 0], [0, 1]]
    assert correct.tolist() == [[1, 1], [0, 1]]
    assert not extra.any()


def test_the_threshold_decides() -> None:
    guesses, *_ = cost(LabelSetTarget("logits", "label", threshold=0.3))
    assert guesses.tolist() == [[1, 1], [0, 1]]


def test_a_missed_label_costs_its_weight_and_no_other_changes() -> None:
    target = LabelSetTarget("logits", "label", class_weights=(1.0, 3.0))
    _, costs, extra, _ = cost(target)
    np.testing.assert_allclose(costs, NATS, rtol=1e-5)
    np.testing.assert_allclose(costs + extra, NATS * [[1, 1], [1, 3]], rtol=1e-5)
    batch = {"label": APPLIES}
    loss = Loss((target,))
    total, sums = loss({"logits": SCORES}, batch, loss.counts(batch))
    assert float(total) == pytest.approx((NATS * [[1, 1], [1, 3]]).sum() / 4, rel=1e-5)
    assert float(sums["logits"]["cost"]) == pytest.approx(NATS.sum(), rel=1e-5)


def test_smoothing_moves_a_target_towards_one_half() -> None:
    _, costs, extra, _ = cost(LabelSetTarget("logits", "label"), label_smoothing=0.2)
    smoothed = APPLIES * 0.8 + 0.1
    expected = -(
        smoothed * np.log(PROBABILITIES) + (1 - smoothed) * np.log(1 - PROBABILITIES)
    )
    np.testing.assert_allclose(costs + extra, expected, rtol=1e-5)


def test_divergence_is_that_of_each_label() -> None:
    target = LabelSetTarget("logits", "label")
    teacher = np.log(np.array([[3.0, 1.0], [1.0, 1.0]], "float32"))  # 3/4, 1/2, …
    found, scale = target.divergence(SCORES, teacher, 2.0)
    p, q = (1 / (1 + np.exp(-scores / 2.0)) for scores in (teacher, SCORES))
    expected = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, atol=1e-6)
    assert scale == 4.0


def test_the_best_guess_without_input_knows_how_often_each_label_applies() -> None:
    target = LabelSetTarget("logits", "label")
    sums = target.input_free_sums({"label": np.array([[1, 0], [1, 0], [0, 0], [0, 0]])})
    assert sums.tolist() == [4, 2, 0]
    assert target.input_free_loss(sums) == pytest.approx(np.log(2) / 2)
