import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.trainer.metrics.squad import SpanAnswerScores, normalize_answer, token_f1


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Theatre", "theatre"),
        ("A.D. 70", "ad 70"),
        ("an apple, a day", "apple day"),
        ("rock 'n' roll", "rock n roll"),
        ("\tten\n thousand ", "ten thousand"),
        ("the", ""),
        # Punctuation goes first: what is left is one word, and no article.
        ("a-b", "ab"),
        ("“Straße”", "“straße”"),
    ],
)
def test_answers_are_normalised_as_in_squad(text, normal):
    assert normalize_answer(text) == normal


@pytest.mark.parametrize(
    ("prediction", "target", "f1"),
    [
        ("in the year 1984", "1984", 2 * (1 / 3) / (1 / 3 + 1)),
        ("Elbe Elbe", "Elbe", 2 / 3),  # a word counts as often as both have it
        ("Elbe", "Rhine", 0),
        ("the", "a", 1),  # nothing is left of both
        ("", "Elbe", 0),
        ("Elbe", "", 0),
    ],
)
def test_f1_by_hand(prediction, target, f1):
    assert token_f1(prediction, target) == pytest.approx(f1, abs=1e-15)


def test_the_nearest_of_several_answers_counts():
    statistics = SpanAnswerScores().statistics(
        ["Chief of Police"],
        [["the police", "Police Chief of Ghent", "chief of police!"]],
    )
    np.testing.assert_array_equal(statistics, [[1, 1, 1]])
    statistics = SpanAnswerScores().statistics(["police"], [["mayor", "chief police"]])
    np.testing.assert_allclose(statistics, [[0, 2 / 3, 1]])


def test_no_answer_is_right_where_there_is_none():
    statistics = SpanAnswerScores().statistics(["", "Elbe", ""], [[], [], ["Elbe"]])
    np.testing.assert_array_equal(statistics, [[1, 1, 1], [0, 0, 1], [0, 0, 1]])


def test_answers_of_which_nothing_is_left_do_not_count():
    statistics = SpanAnswerScores().statistics([""], [["the", "Elbe"]])
    np.testing.assert_array_equal(statistics, [[0, 0, 1]])


def test_no_questions_are_no_rows():
    assert SpanAnswerScores().statistics([], []).shape == (0, 3)


def test_as_many_predictions_as_targets():
    with pytest.raises(ValueError, match="zip"):
        SpanAnswerScores().statistics(["a"], [])


TEXT = st.text(alphabet=string.ascii_lowercase[:4] + " .A", max_size=12)


@given(TEXT, TEXT)
def test_f1_is_the_same_both_ways_and_1_of_equals(one, other):
    assert token_f1(one, other) == token_f1(other, one)
    same = sorted(normalize_answer(one).split()) == sorted(
        normalize_answer(other).split()
    )
    assert (token_f1(one, other) == 1) == same
