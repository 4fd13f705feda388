import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.configs.base.errors import DataError
from transbeam.trainer.metrics.classification import ClassificationScores, confusion
from transbeam.trainer.metrics.counts import ClassCounts

LABELS = ("cat", "dog", "fish", "owl")
# Targets in rows: 3 cats of which one is taken for a dog, 2 dogs, 1 fish taken for a
# cat; owls are neither asked for nor predicted.
TARGETS = np.array([0, 0, 0, 1, 1, 2])
PREDICTIONS = np.array([0, 0, 1, 1, 1, 0])

EXAMPLES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40
)


def scores_of(predictions, targets, weights=None) -> dict[str, float]:
    metric = ClassificationScores(LABELS)
    statistics = metric.statistics(predictions, targets, weights)
    scores = metric.scores(statistics.sum(axis=0))
    return {name: score.item() for name, score in scores.items()}


def test_scores_by_hand():
    scores = scores_of(PREDICTIONS, TARGETS)
    assert scores["accuracy"] == 4 / 6
    # F1: cat 4/6, dog 4/5, fish 0; owls do not count.
    assert scores["macro_f1"] == pytest.approx((4 / 6 + 4 / 5 + 0) / 3, abs=1e-15)
    # c s − Σ p t = 4·6 − (3·3 + 3·2 + 0·1) = 9; 36 − (9 + 9) and 36 − (9 + 4 + 1).
    expected = 9 / np.sqrt(18 * 22)
    assert scores["matthews_correlation"] == pytest.approx(expected, abs=1e-15)


def test_scores_of_each_class_by_hand():
    metric = ClassificationScores(LABELS)
    sums = metric.statistics(PREDICTIONS, TARGETS).sum(axis=0)
    table = ClassCounts.from_sums(sums).table(LABELS)
    assert table["cat"] == pytest.approx((2 / 3, 2 / 3, 2 / 3, 3))
    assert table["dog"] == pytest.approx((2 / 3, 1, 4 / 5, 2))
    assert table["fish"] == (0, 0, 0, 1)
    assert table["owl"] == (0, 0, 0, 0)


def test_confusion_has_targets_in_rows():
    found = confusion(PREDICTIONS, TARGETS, LABELS)
    np.testing.assert_array_equal(
        found, [[2, 1, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    )


def test_correlation_of_two_classes_is_that_of_matthews():
    right_yes, right_no, wrong_yes, wrong_no = 6, 3, 1, 2
    targets = [1] * 6 + [0] * 3 + [0] * 1 + [1] * 2
    predictions = [1] * 6 + [0] * 3 + [1] * 1 + [0] * 2
    above = right_yes * right_no - wrong_yes * wrong_no
    below = np.sqrt(7 * 8 * 4 * 5)
    found = scores_of(predictions, targets)["matthews_correlation"]
    assert found == pytest.approx(above / below, abs=1e-15)


def of_two_classes(predictions, targets) -> dict[str, float]:
    metric = ClassificationScores(("no", "yes"))
    scores = metric.scores(metric.statistics(predictions, targets).sum(axis=0))
    return {name: score.item() for name, score in scores.items()}


def test_scores_of_two_classes_by_hand():
    # 3 true positives, 1 true negative, 1 false positive, 1 false negative
    scores = of_two_classes([1, 1, 1, 0, 1, 0], [1, 1, 1, 0, 0, 1])
    assert scores["matthews_correlation"] == pytest.approx(0.25, abs=1e-15)
    assert scores["accuracy"] == pytest.approx(4 / 6, abs=1e-15)
    assert scores["f1_yes"] == 0.75
    assert scores["f1_no"] == 0.5
    assert scores["macro_f1"] == 0.625
    # MRPC's dev set, of which 279 of 408 pairs are paraphrases, all called so.
    scores = of_two_classes([1] * 408, [1] * 279 + [0] * 129)
    assert round(scores["accuracy"], 4) == 0.6838
    assert round(scores["f1_yes"], 4) == 0.8122
    assert scores["matthews_correlation"] == 0


@pytest.mark.parametrize(
    ("predictions", "targets"), [([1, 1, 1], [0, 1, 2]), ([0, 1, 2], [1, 1, 1])]
)
def test_one_class_only_correlates_with_nothing(predictions, targets):
    assert scores_of(predictions, targets)["matthews_correlation"] == 0


def test_perfect_and_opposite_answers():
    assert set(scores_of([0, 1, 2, 2], [0, 1, 2, 2]).values()) == {1}
    assert scores_of([1, 0, 1, 0], [0, 1, 0, 1])["matthews_correlation"] == -1


@given(EXAMPLES)
def test_scores_are_those_of_scikit_learn(examples):
    reference = pytest.importorskip("sklearn.metrics")
    predictions, targets = np.array(examples).T
    scores = scores_of(predictions, targets)
    with warnings.catch_warnings():
        # It warns of classes that are not met and of a single label.
        warnings.simplefilter("ignore")
        assert scores == pytest.approx(
            {
                "accuracy": reference.accuracy_score(targets, predictions),
                "macro_f1": reference.f1_score(targets, predictions, average="macro"),
                "matthews_correlation": reference.matthews_corrcoef(
                    targets, predictions
                ),
            },
            abs=1e-12,
        )
        np.testing.assert_array_equal(
            confusion(predictions, targets, LABELS),
            reference.confusion_matrix(targets, predictions, labels=range(4)),
        )
        columns = reference.precision_recall_fscore_support(
            targets, predictions, labels=range(4), zero_division=0
        )
    metric = ClassificationScores(LABELS)
    sums = metric.statistics(predictions, targets).sum(axis=0)
    table = ClassCounts.from_sums(sums).table(LABELS)
    np.testing.assert_allclose(list(table.values()), np.transpose(columns), atol=1e-12)


@given(EXAMPLES)
def test_words_of_sentences_score_as_the_words_alone(examples):
    predictions, targets = np.array(examples).T
    wide = np.full((2, len(targets), 2), 3)  # padding says "owl"
    wide[0, :, 0], wide[1, :, 0] = predictions, targets
    weights = np.zeros((len(targets), 2))
    weights[:, 0] = 1
    assert scores_of(*wide, weights) == scores_of(predictions, targets)
    np.testing.assert_array_equal(
        confusion(*wide, LABELS, weights), confusion(predictions, targets, LABELS)
    )


@pytest.mark.parametrize("wrong", [-1, 4])
def test_ids_without_a_label_are_refused(wrong):
    with pytest.raises(
        DataError, match=f"targets: found label {wrong}, expected 0 to 3"
    ):
        ClassificationScores(LABELS).statistics([0, 1], [0, wrong])
    with pytest.raises(DataError, match=f"predictions: found label {wrong}"):
        confusion([0, wrong], [0, 1], LABELS)


def test_ids_of_padding_need_no_label():
    assert scores_of([[0, -1]], [[0, -100]], [[1, 0]])["accuracy"] == 1
