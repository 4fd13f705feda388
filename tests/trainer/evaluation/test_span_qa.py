"""The best span of all windows, beside a search through all spans."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transbeam.trainer.evaluation.span_qa import (
    AnswerWindows,
    best_of_windows,
    best_spans,
    read_windows,
)


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


WINDOWS = AnswerWindows(
    first=np.array([10, 20, 30, 40]),
    last=np.array([11, 21, 31, 41]),
    score=np.array([1.0, 5.0, 2.0, 2.5]),
    none=np.array([0.0, 4.0, 3.0, 9.0]),
)
QUESTION = np.array([1, 0, 1, 0])


def test_the_best_window_of_each_question_counts() -> None:
    first, last = best_of_windows(WINDOWS, QUESTION, 2, may_be_none=False)
    assert (first.tolist(), last.tolist()) == ([20, 30], [21, 31])


def test_no_answer_must_win_in_every_window() -> None:
    # Of question 0 the least is 4 < 5; of question 1 it is 0 < 2.
    first, _ = best_of_windows(WINDOWS, QUESTION, 2, may_be_none=True)
    assert first.tolist() == [20, 30]
    sure = AnswerWindows(
        WINDOWS.first, WINDOWS.last, WINDOWS.score, np.array([3.0, 4, 3, 9])
    )
    first, last = best_of_windows(sure, QUESTION, 2, may_be_none=True)
    assert (first.tolist(), last.tolist()) == ([20, -1], [21, -1])


def test_places_in_a_window_become_places_in_the_text() -> None:
    # [CLS] q [SEP] c0 c1 c2 [SEP] pad: the piece at the end is no answer.
    batch = {
        "segment_ids": np.array([[0, 0, 0, 1, 1, 1, 1, 0]]),
        "context_start": np.array([100]),
    }
    start = [[1.0, 9, 9, 0, 3, 0, 9, 9]]
    end = [[2.0, 9, 9, 0, 0, 4, 9, 9]]
    outputs = {"start_logits": np.array(start), "end_logits": np.array(end)}
    found = read_windows(lambda _: outputs, [batch], max_length=8)
    assert (found.first.tolist(), found.last.tolist()) == ([101], [102])
    assert (found.score.tolist(), found.none.tolist()) == ([7.0], [3.0])
