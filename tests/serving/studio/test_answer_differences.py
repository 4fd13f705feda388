"""Differences of predictions, by hand."""

import numpy as np
import pytest

from transbeam.serving.studio.answers import Answer, Outcomes, Prediction
from transbeam.serving.studio.comparison.answer_differences import compare_answers

AB = Outcomes(("a", "b"), ("a", "b"))


def answer(kind, outcomes, *shares, **more):
    predictions = [
        Prediction(number, f"text {number}", np.array(each, float), **more)
        for number, each in enumerate(shares)
    ]
    return Answer(kind, outcomes, predictions, row=[7, 8])


def test_the_largest_difference_comes_first():
    one = answer("tags", AB, [0.5, 0.5], [0.9, 0.1])
    other = answer("tags", AB, [0.5, 0.5], [0.2, 0.8])
    found = compare_answers(one, other)
    assert found["same_tokens"]
    assert [p["difference"] for p in found["predictions"]] == [0.7, 0]
    first, second = found["predictions"]
    assert (first["number"], first["text"]) == (1, "text 1")
    assert first["best"] == {"a": 0, "b": 1}
    assert second["best"]["a"] == second["best"]["b"]


@pytest.mark.parametrize(("kind", "difference"), [("labels", 0.4), ("classes", 0.35)])
def test_labels_have_independent_probabilities(kind, difference):
    one, other = answer(kind, AB, [0.5, 0.1]), answer(kind, AB, [0.9, 0.4])
    [found] = compare_answers(one, other)["predictions"]
    assert found["difference"] == pytest.approx(difference)


def test_numbers():
    score = Outcomes(("score",), ("score",))
    one, other = answer("number", score, [-1.5]), answer("number", score, [2.0])
    [found] = compare_answers(one, other)["predictions"]
    assert found["difference"] == 3.5
    assert found["outcomes"] == [{"name": "score", "a": -1.5, "b": 2.0}]


def test_classes_that_one_model_lacks():
    one = answer("classes", AB, [0.5, 0.5])
    other = answer("classes", Outcomes(("b", "c"), ("b", "c")), [0.25, 0.75])
    [found] = compare_answers(one, other)["predictions"]
    assert found["difference"] == 0.75
    shares = {each["name"]: (each["a"], each["b"]) for each in found["outcomes"]}
    assert shares == {"a": (0.5, None), "b": (0.5, 0.25), "c": (None, 0.75)}
    spans = [
        answer("spans", AB, [0.5, 0.5]),
        answer("spans", Outcomes(*[("b",)] * 2), [1]),
    ]
    [found] = compare_answers(*spans)["predictions"]
    assert {each["name"]: each["b"] for each in found["outcomes"]} == {"a": 0, "b": 1}


def test_few_of_many_outcomes_are_listed():
    names = tuple(map(str, range(1000)))
    vocabulary = Outcomes(names, names)
    shares = np.random.default_rng(0).dirichlet(np.ones(1000), size=2)
    one, other = (answer("tokens", vocabulary, each, actual=500) for each in shares)
    [found] = compare_answers(one, other)["predictions"]
    listed = [each["name"] for each in found["outcomes"]]
    tops = {str(i) for each in shares for i in np.argsort(-each)[:5]}
    tops |= {str(i) for i in np.argsort(-abs(shares[1] - shares[0]))[:5]}
    assert set(listed) == tops | {"500"}
    assert listed[found["actual"]] == "500"
    differences = [abs(each["b"] - each["a"]) for each in found["outcomes"]]
    assert differences == sorted(differences, reverse=True)
    total = np.abs(shares[1] - shares[0]).sum() / 2
    assert found["difference"] == pytest.approx(total, abs=1e-6)


def test_other_tokens_have_only_the_end_in_common():
    other = Outcomes(("b", "c"), ("b", "c"))
    one = answer("tokens", AB, [0.5, 0.5], [0.9, 0.1])
    found = compare_answers(one, answer("tokens", other, [1, 0], [0, 1], [0.5, 0.5]))
    assert not found["same_tokens"]
    [prediction] = found["predictions"]
    assert prediction["number"] == 1
    assert prediction["difference"] == 0.9


def test_pieces_that_look_alike_are_different_ones():
    pieces = Outcomes.from_shown(["\ufffd", "a", "\ufffd", "\ufffd"])
    assert len(set(pieces.names)) == 4
    assert pieces.shown == ("\ufffd", "a", "\ufffd", "\ufffd")
    one = answer("fills", pieces, [0.1, 0.2, 0.3, 0.4])
    [found] = compare_answers(one, one)["predictions"]
    assert len(found["outcomes"]) == 4
    assert found["difference"] == 0
