"""The best answer over all windows of a question."""

import numpy as np

from transbeam.trainer.evaluation.span_qa import (
    AnswerWindows,
    best_of_windows,
    read_windows,
)

WINDOWS = AnswerWindows(
    first=np.array([10, 20, 30, 40]),
    last=np.array([11, 21, 31, 41]),
    score=np.array([1.0, 5.0, 2.0, 2.5]),
    none=np.array([0.0, 4.0, 3.0, 9.0]),
)
QUESTION = np.array([1, 0, 1, 0])


def test_the_best_window_of_each_question_counts() -> None:
    first, last = best_of_windows(WINDOWS, QUESTION, 2).spans(None)
    assert (first.tolist(), last.tolist()) == ([20, 30], [21, 31])


def test_no_answer_must_win_in_every_window() -> None:
    # Of question 0 the least is 4 < 5; of question 1 it is 0 < 2.
    best = best_of_windows(WINDOWS, QUESTION, 2)
    assert best.difference.tolist() == [-1, -2]
    assert best.spans(0.0)[0].tolist() == [20, 30]
    # A lower threshold predicts it more often, and is itself not exceeded.
    assert best.spans(-1.0)[0].tolist() == [20, 30]
    assert best.spans(-1.5)[0].tolist() == [-1, 30]
    sure = AnswerWindows(
        WINDOWS.first, WINDOWS.last, WINDOWS.score, np.array([3.0, 4, 3, 9])
    )
    first, last = best_of_windows(sure, QUESTION, 2).spans(0.0)
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
