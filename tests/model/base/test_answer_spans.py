"""The best answer span, beside a search through all spans."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transbeam.model.base.answer_spans import best_spans


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_best_spans_beside_all_spans(seed: int, longest: int) -> None:
    random = np.random.default_rng(seed)
    start, end = random.normal(size=(2, 3, 8))
    inside = np.zeros((3, 8), bool)
    for row in range(3):
        begin = random.integers(0, 8)
        inside[row, begin : random.integers(begin + 1, 9)] = True
    first, last, score = best_spans(start, end, inside, longest)
    for row in range(3):
        places = np.flatnonzero(inside[row])
        every = {
            (i, j): start[row, i] + end[row, j]
            for i in places
            for j in places
            if i <= j < i + longest
        }
        assert max(every, key=every.__getitem__) == (first[row], last[row])
        assert score[row] == max(every.values())


def test_no_allowed_position_scores_minus_infinity() -> None:
    logits = np.zeros((1, 4))
    _, _, score = best_spans(logits, logits, np.zeros((1, 4), bool), 2)
    assert score[0] == -np.inf
