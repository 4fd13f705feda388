"""Area under the ROC curve: by hand, against scikit-learn, and its interval."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from transbeam.trainer.analysis.flow.roc_area import roc_area


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(2, 12))
def test_against_scikit_learn_with_ties(seed, positives, negatives):
    generator = np.random.default_rng(seed)
    labels = generator.permutation([True] * positives + [False] * negatives)
    scores = generator.integers(0, 4, (len(labels), 3)).astype(float)
    found = roc_area(scores, labels)
    expected = [roc_auc_score(labels, column) for column in scores.T]
    np.testing.assert_allclose(found.area, expected)
    assert (found.low <= found.area).all()
    assert (found.area <= found.high).all()


def test_variance_from_the_definition():
    """DeLong's components as means over all pairs of a positive and a negative."""
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(60, 1))
    labels = scores[:, 0] + generator.normal(size=60) > 0
    x, y = scores[labels, 0], scores[~labels, 0]
    wins = (x[:, None] > y) + 0.5 * (x[:, None] == y)
    variance = wins.mean(1).var(ddof=1) / len(x) + wins.mean(0).var(ddof=1) / len(y)
    found = roc_area(scores, labels)
    assert found.area[0] == pytest.approx(wins.mean())
    margin = 1.959964 * np.sqrt(variance)
    assert found.area[0] - found.low[0] == pytest.approx(margin)


def test_coverage_of_the_interval():
    """Scores without information: 95% of intervals contain 0.5."""
    generator = np.random.default_rng(1)
    labels = np.arange(200) % 2 == 0
    found = roc_area(generator.normal(size=(200, 2000)), labels)
    covered = np.mean((found.low <= 0.5) & (found.high >= 0.5))
    assert 0.93 < covered < 0.97


def test_perfect_and_reversed():
    labels = np.array([True, True, False, False])
    scores = np.array([[3.0, 0.0], [2.0, 1.0], [1.0, 2.0], [0.0, 3.0]])
    np.testing.assert_array_equal(roc_area(scores, labels).area, [1, 0])


@pytest.mark.parametrize("labels", [[True, False, False], [True, True, True]])
def test_too_few_examples(labels):
    with pytest.raises(ValueError, match="2 of each"):
        roc_area(np.zeros((3, 1)), np.array(labels))


def test_scores_that_are_no_numbers():
    scores = np.array([[np.nan], [1.0], [2.0], [3.0]])
    with pytest.raises(ValueError, match="NaN"):
        roc_area(scores, np.array([True, True, False, False]))
