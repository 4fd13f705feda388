"""Scores of sets of labels, against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import accuracy_score, f1_score

from transbeam.trainer.metrics.classification import LabelSetScores
from transbeam.trainer.metrics.counts import ClassCounts

LABELS = ("a", "b", "c")
SETS = arrays(np.int64, (6, 3), elements=st.integers(0, 1))


@given(SETS, SETS)
def test_as_scikit_learn_has_them(predicted: np.ndarray, applying: np.ndarray) -> None:
    metric = LabelSetScores(LABELS)
    sums = metric.statistics(predicted, applying).sum(axis=0)
    scores = {name: score.item() for name, score in metric.scores(sums).items()}
    options = {"y_true": applying, "y_pred": predicted, "zero_division": 0}
    assert scores["micro_f1"] == pytest.approx(f1_score(average="micro", **options))
    assert scores["exact_match"] == accuracy_score(applying, predicted)
    each = f1_score(average=None, **options)
    assert [scores[f"f1_{name}"] for name in LABELS] == pytest.approx(each.tolist())
    met = (predicted + applying).any(axis=0)
    if met.any():  # labels that nobody meets are left out of the mean
        assert scores["macro_f1"] == pytest.approx(each[met].mean())
    table = ClassCounts.from_sums(sums[:-2]).table(LABELS)
    assert [table[name].support for name in LABELS] == applying.sum(axis=0).tolist()


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be of shape \(1, 3\)"):
        LabelSetScores(LABELS).statistics(np.ones((1, 2)), np.ones((1, 2)))
