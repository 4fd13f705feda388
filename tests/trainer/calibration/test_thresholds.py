"""Thresholds by hand, by trying all of them, and as SQuAD's script finds its own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.trainer.calibration.thresholds import (
    choose_threshold,
    fit_label_thresholds,
    fit_no_answer_threshold,
)

# Few values, so that many are equal. No threshold is as low as 0.
SHARES = st.sampled_from([1e-9, 0.1, 0.3, 0.5, 0.7, 1.0])
TEXTS = st.lists(st.tuples(SHARES, st.integers(0, 1)), min_size=1, max_size=12)
QUESTIONS = st.lists(
    st.tuples(
        st.sampled_from([-4.0, -1.5, -1.0, 0.0, 0.5, 3.0]),
        st.sampled_from([None, 0.0, 0.25, 1.0]),  # F1 of its answer; None: it has none
    ),
    min_size=1,
    max_size=12,
)


def plain_f1(texts: list[tuple[float, int]], threshold: float) -> float:
    chosen = [applies for p, applies in texts if p >= threshold]
    everything = len(chosen) + sum(applies for _, applies in texts)
    return 2 * sum(chosen) / everything if everything else 0.0


def fitted(texts: list[tuple[float, int]], default: float = 0.5) -> float:
    shares, applies = (np.array(column)[:, None] for column in zip(*texts, strict=True))
    (threshold,) = fit_label_thresholds(shares, applies, default)
    return float(threshold)


def test_by_hand() -> None:
    texts = [(0.9, 1), (0.45, 1), (0.4, 0), (0.35, 1), (0.1, 0)]
    # F1 of the first k: 1/2, 4/5, 2/3, 6/7, 3/4: between 0.35 and 0.1.
    assert fitted(texts) == pytest.approx(0.225)
    assert plain_f1(texts, 0.225) == pytest.approx(6 / 7)


@pytest.mark.parametrize(
    ("texts", "threshold"),
    [
        ([(0.9, 1), (0.6, 1), (0.3, 0)], 0.5),  # it is right already
        ([(0.9, 0), (0.2, 0)], 0.5),  # no text has the label
        ([(0.4, 1), (0.3, 1)], 0.15),  # each has it
        ([(0.9, 1), (0.8, 0), (0.7, 0)], 0.85),
        ([(0.3, 1), (0.3, 0)], 0.15),  # equal ones are not separated
        ([(0.2, 1), (0.1, 0), (0.1, 0), (0.1, 1), (0.1, 1)], 0.05),
    ],
)
def test_edges(texts, threshold: float) -> None:
    assert fitted(texts) == pytest.approx(threshold)


@given(TEXTS)
def test_no_other_threshold_has_a_better_f1(texts) -> None:
    found = fitted(texts)
    tried = [*sorted(p for p, _ in texts), 0.2, 0.4, 0.6, 0.9, 2.0]
    best = max(plain_f1(texts, threshold) for threshold in tried)
    assert plain_f1(texts, found) == pytest.approx(best)
    if plain_f1(texts, 0.5) == pytest.approx(best):
        assert found == 0.5  # nothing is changed without a reason
    else:
        assert all(found != p for p, _ in texts)  # which rounding would move over it


def test_each_label_has_its_own() -> None:
    shares = np.array([[0.9, 0.1], [0.2, 0.05], [0.1, 0.02]])
    targets = np.array([[1, 1], [1, 0], [0, 0]])
    found = fit_label_thresholds(shares, targets, 0.5)
    assert found == pytest.approx([0.15, 0.075])


def test_ties_go_to_the_default() -> None:
    values, scores = np.array([0.9, 0.7, 0.2]), np.array([1.0, 0.0, 0.0, 1.0])
    assert choose_threshold(values, scores, 0.4, (0.0, 1.0)) == pytest.approx(0.1)
    assert choose_threshold(values, scores, 0.6, (0.0, 1.0)) == pytest.approx(0.95)


def mean_score(questions, threshold: float) -> float:
    """Score of the predictions; 1 for no answer where there is none."""
    total = 0.0
    for difference, f1 in questions:
        if difference > threshold:
            total += f1 is None
        else:
            total += f1 or 0.0
    return total / len(questions)


def squad_best(questions) -> float:
    """SQuAD's way: from no answer to all, question by question, the best so far."""
    current = best = sum(f1 is None for _, f1 in questions)
    differences = [difference for difference, _ in questions]
    for difference, f1 in sorted(questions, key=lambda one: one[0]):
        current += -1 if f1 is None else f1
        if differences.count(difference) == 1:  # it separates questions that are equal
            best = max(best, current)
    return best / len(questions)


def no_answer(questions) -> float:
    return fit_no_answer_threshold(
        np.array([difference for difference, _ in questions]),
        np.array([f1 or 0.0 for _, f1 in questions]),
        np.array([float(f1 is None) for _, f1 in questions]),
    )


@given(QUESTIONS)
def test_the_no_answer_threshold_is_the_best(questions) -> None:
    found = no_answer(questions)
    tried = [-9.0, *(difference for difference, _ in questions), 9.0]
    best = max(mean_score(questions, threshold) for threshold in tried)
    assert mean_score(questions, found) == pytest.approx(best)
    assert best >= squad_best(questions) - 1e-12
    if mean_score(questions, 0.0) == pytest.approx(best):
        assert found == 0.0


def test_as_squad_s_script_finds_it() -> None:
    rng = np.random.default_rng(0)
    differences = rng.normal(0, 2, 80).tolist()  # all are different
    f1 = [
        None if d + rng.normal() > 0.5 else float(rng.integers(0, 2))
        for d in differences
    ]
    questions = list(zip(differences, f1, strict=True))
    assert mean_score(questions, no_answer(questions)) == pytest.approx(
        squad_best(questions)
    )
    assert mean_score(questions, no_answer(questions)) > mean_score(questions, 0.0)


@pytest.mark.parametrize(
    ("questions", "threshold"),
    [
        ([(-3.0, 1.0), (-2.0, None), (-1.0, None)], -2.5),
        ([(2.0, None), (-1.0, 1.0)], 0.0),  # it is right already
        ([(-2.0, None), (-1.0, None)], -2.5),  # none has an answer
        ([(1.0, 1.0), (2.0, 1.0)], 2.5),  # each has one
        ([(1.0, 0.0), (2.0, 0.0)], 0.0),  # it makes no difference
    ],
)
def test_no_answer_by_hand(questions, threshold: float) -> None:
    found = no_answer(questions)
    assert found == threshold
    assert str(found) != "-0.0"
