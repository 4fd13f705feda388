"""Collected outputs, computed by hand."""

import numpy as np
import pytest

from transbeam.trainer.evaluation.collectors import (
    Confusions,
    CostsByDocument,
    WorstRows,
)
from transbeam.trainer.objectives.targets import Target

TOKENS = Target("logits", "target_ids", "target_weights")
LABEL = Target("logits", "label")


def two_documents() -> tuple[dict, dict]:
    """A record of two documents and padding, and one of a single document."""
    batch = {
        "target_ids": np.array([[5, 6, 7, 0], [8, 0, 0, 0]]),
        "target_weights": np.array([[1.0, 1, 1, 0], [1, 0, 0, 0]]),
        "document_ids": np.array([[1, 2, 2, 0], [1, 1, 0, 0]]),
        "token_ids": np.array([[1, 2, 3, 0], [4, 9, 0, 0]]),
    }
    nats = np.array([[1.0, 2, 0.5, 0], [4, 0, 0, 0]])
    answers = {
        "guesses": np.array([[5, 1, 7, 3], [8, 3, 3, 3]]),
        "costs": nats,
        "cost": nats.sum(axis=1),
        "correct": np.array([2.0, 1.0]),
        "count": np.array([3.0, 1.0]),
    }
    return {"logits": answers}, batch


def test_costs_of_the_documents_of_records() -> None:
    costs = CostsByDocument([TOKENS], "document_ids")
    answers, batch = two_documents()
    costs(answers, batch)
    one_each = {name: x[1:] for name, x in batch.items()}
    costs({"logits": {n: x[1:] for n, x in answers["logits"].items()}}, one_each)
    found = costs.select(np.array([0, 0, 1, 2]), np.array([1, 2, 1, 1]))
    np.testing.assert_allclose(found, [1.0, 2.5, 4.0, 4.0])


def test_costs_of_several_asks_add_up() -> None:
    asks = Target("start_logits", "s"), Target("end_logits", "e")
    costs = CostsByDocument(asks)
    start, end = {"cost": np.array([1.0, 2.0])}, {"cost": np.array([3.0, 4.0])}
    costs({"start_logits": start, "end_logits": end}, {})
    np.testing.assert_allclose(
        costs.select(np.array([0, 1]), np.array([1, 1])), [4.0, 6.0]
    )


@pytest.mark.parametrize("per_target", [False, True])
def test_worst_rows_over_several_batches(per_target) -> None:
    worst = WorstRows(TOKENS, 3, wrong_only=False, per_target=per_target)
    for _ in range(2):
        worst(*two_documents())
    # 3.5 nats at 3 targets against 4 at one, either way; each batch has both.
    assert [row.number for row in worst.rows] == [1, 3, 0]
    row = worst.rows[-1]
    assert row.targets.tolist() == [5, 6, 7]
    assert row.guesses.tolist() == [5, 1, 7]
    assert row.tokens.tolist() == [1, 2, 3]
    assert row.cost_per_target == pytest.approx(3.5 / 3)


def test_only_what_is_wrong() -> None:
    worst = WorstRows(TOKENS, 3, wrong_only=True)
    worst(*two_documents())
    assert [row.number for row in worst.rows] == [0]


def test_confusions_of_classes() -> None:
    confusions = Confusions(LABEL, ("no", "yes"))
    for _ in range(2):
        answers = {"logits": {"guesses": np.array([0, 1, 1])}}
        confusions(answers, {"label": np.array([0, 0, 1])})
    assert confusions.as_json() == {"labels": ["no", "yes"], "counts": [[2, 2], [0, 2]]}
