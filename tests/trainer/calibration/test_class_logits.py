"""Collected logits, and the events whose probabilities are assessed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.objective_configs import EVERY, config_of
from transbeam.trainer.calibration import class_logits
from transbeam.trainer.calibration.class_logits import (
    ClassLogits,
    LogitCollector,
    calibrated_outputs,
    calibrated_target,
)
from transbeam.trainer.objectives.losses import make_loss
from transbeam.trainer.objectives.targets import LabelSetTarget, Target


def drawn(seed: int, choices: int, classes: int) -> ClassLogits:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (choices, classes)).astype(np.float32)
    targets = rng.integers(0, classes, choices)
    return ClassLogits(logits, targets, np.arange(choices), choices)


def plain_softmax(logits: np.ndarray, temperature: float) -> list[float]:
    odds = [np.exp(float(logit) / temperature) for logit in logits]
    return [each / sum(odds) for each in odds]


def test_as_plain_loops_have_them(monkeypatch) -> None:
    monkeypatch.setattr(class_logits, "_MOST_CONVERTED", 7)  # several blocks
    logits = drawn(0, 11, 3)
    found = logits.assess(1.7)
    nats = 0.0
    for row in range(11):
        shares = plain_softmax(logits.logits[row], 1.7)
        target = int(logits.targets[row])
        assert found.probabilities[row] == pytest.approx(max(shares))
        assert found.occurred[row] == (max(shares) == shares[target])
        brier = sum((p - (c == target)) ** 2 for c, p in enumerate(shares))
        assert found.squared_errors[row] == pytest.approx(brier)
        nats -= np.log(shares[target]) / 11
    assert logits.nats(1.7) == pytest.approx(nats)


def test_large_logits_are_no_overflow() -> None:
    logits = ClassLogits(
        np.array([[3e4, -3e4], [0, 1e5]], np.float32), np.array([0, 0]), np.arange(2), 2
    )
    assert logits.nats() == pytest.approx(5e4)
    assert logits.assess().probabilities.tolist() == [1.0, 1.0]


@given(st.integers(0, 999), st.floats(0.05, 20))
def test_a_temperature_changes_no_predicted_class(seed: int, temperature: float):
    logits = drawn(seed, 20, 4)
    before, after = logits.assess(), logits.assess(temperature)
    assert after.occurred.tolist() == before.occurred.tolist()
    assert after.probabilities.min() >= 0.25 - 1e-12


def test_padding_is_left_out_and_records_are_counted_on() -> None:
    collector = LogitCollector(Target("logits", "label_ids", "label_weights"))
    weights = np.array([[1, 0, 1], [0, 0, 0]], np.float32)
    for start in (0.0, 6.0):
        logits = start + np.arange(6, dtype=np.float32).reshape(2, 3)
        batch = {
            "label_ids": np.array([[4, 5, 6], [7, 8, 9]]),
            "label_weights": weights,
        }
        pairs = np.stack([logits, -logits], axis=-1)
        collector({"logits": {"logits": pairs}}, batch)
    found = collector.collected()
    assert found.logits[:, 0].tolist() == [0, 2, 6, 8]
    assert found.targets.tolist() == [4, 6, 4, 6]
    assert found.units.tolist() == [0, 0, 2, 2]
    assert found.count == 4


def test_each_label_of_a_set_is_an_event() -> None:
    collector = LogitCollector(LabelSetTarget("logits", "label"))
    logits = np.log(np.array([[3.0, 1 / 4]], np.float32))  # of 3/4 and of 1/5
    collector({"logits": {"logits": logits}}, {"label": np.array([[1, 0]])})
    found = collector.collected().assess()
    assert found.probabilities == pytest.approx([0.75, 0.2])
    assert found.occurred.tolist() == [True, False]
    assert found.squared_errors == pytest.approx([0.0625, 0.04])
    assert found.units.tolist() == [0, 0]


@pytest.mark.parametrize(("kind", "model"), EVERY)
def test_kinds_that_choose_among_classes(kind: str, model: str) -> None:
    objective = config_of(kind, model).objective
    chooses = "classification" in kind or kind == "sentence_pairs"
    assert (calibrated_target(objective) is not None) == chooses
    assert len(calibrated_outputs(objective)) == chooses


def test_the_loss_returns_logits_only_if_they_are_named() -> None:
    config = config_of("classification", "encoder")
    outputs = {"logits": np.array([[0.5, -0.5]], np.float16)}
    batch = {"label": np.array([1])}
    assert "logits" not in make_loss(config).answers(outputs, batch)["logits"]
    loss = make_loss(config, calibrated_outputs(config.objective))
    found = np.asarray(loss.answers(outputs, batch)["logits"]["logits"])
    assert found.dtype == np.float32
    assert found.tolist() == [[0.5, -0.5]]
