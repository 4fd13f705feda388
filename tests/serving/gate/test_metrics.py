"""What a file may lose of accuracy and perplexity, worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from configs.export import ExportConfig
from serving.gate.labelled import Question
from serving.gate.metrics import Accuracy
from serving.gate.perplexity import Perplexity

TRAINED = SimpleNamespace(config=SimpleNamespace(export=ExportConfig()))


class Told:
    """A file that answers as it is told: which class, question by question."""

    def __init__(self, classes):
        self.classes = iter(classes)

    def ask(self, signature, **inputs):
        assert signature == "classify_ids"
        return {"logits": np.eye(2)[next(self.classes)]}


def accuracy(monkeypatch, keras):
    """All answers are 1; Keras says these."""
    questions = [Question({"token_ids": np.ones(1)}, np.array([1])) for _ in keras]
    answers = [{"logits": np.eye(2)[says]} for says in keras]
    monkeypatch.setattr("serving.gate.metrics.ask_keras", lambda *_: answers)
    return Accuracy(TRAINED, "classify_ids", questions)


def test_twenty_answers_of_872_are_too_many(monkeypatch):
    metric = accuracy(monkeypatch, [1] * 800 + [0] * 72)
    assert metric.of_keras == 800 / 872
    # 20 are lost and 2 won: 18 of 872, 2.06 points; by chance 1.645 √22 of 872.
    score, row = metric.measured(Told([0] * 20 + [1] * 780 + [1] * 2 + [0] * 70))
    assert score == 782 / 872
    found = row("a file")
    assert found.value == pytest.approx(18 / 872)
    assert found.limit == pytest.approx(0.01 + 1.645 * np.sqrt(22) / 872)
    assert not found.passed
    assert found.check == "accuracy lost, of 0.9174 on 872 answers"


def test_one_answer_of_forty_may_be_chance(monkeypatch):
    metric = accuracy(monkeypatch, [1] * 40)
    score, row = metric.measured(Told([0] + [1] * 39))
    assert score == 39 / 40
    assert row("a file").value == 1 / 40 > 0.01
    assert row("a file").passed


def test_as_many_lost_as_won_is_no_loss(monkeypatch):
    metric = accuracy(monkeypatch, [1] * 50 + [0] * 50)
    score, row = metric.measured(Told([0] * 50 + [1] * 50))
    assert (score, row("a file").value) == (0.5, 0.0)
    assert row("a file").passed


def test_answers_at_places_count_each(monkeypatch):
    """A tagger: of four tokens two are judged."""
    question = Question(
        {"token_ids": np.ones(4)}, np.array([1, 0]), places=np.array([1, 3])
    )
    tags = np.eye(2)[[0, 1, 0, 1]]  # right at the first place, wrong at the second
    monkeypatch.setattr("serving.gate.metrics.ask_keras", lambda *_: [{"logits": tags}])
    assert Accuracy(TRAINED, "tag_ids", [question]).of_keras == 0.5


def test_a_span_is_right_if_both_ends_are(monkeypatch):
    questions = [Question({"token_ids": np.ones(3)}, np.array([1, 2]))] * 2
    ends = [
        {"start_logits": np.eye(3)[1], "end_logits": np.eye(3)[2]},
        {"start_logits": np.eye(3)[1], "end_logits": np.eye(3)[1]},
    ]
    monkeypatch.setattr("serving.gate.metrics.ask_keras", lambda *_: ends)
    names = ("start_logits", "end_logits")
    assert Accuracy(TRAINED, "read_ids", questions, names).of_keras == 0.5


@pytest.mark.parametrize(("surprise", "passes"), [(1.01, True), (1.03, False)])
def test_perplexity_may_be_two_hundredths_higher(surprise, passes):
    metric = Perplexity(
        TRAINED,
        [np.array([1.0, 1.0]), np.array([1.0])],
        lambda model: [np.array([surprise, surprise, surprise])],
    )
    assert metric.of_keras == pytest.approx(np.e)
    score, row = metric.measured(None)
    assert score == pytest.approx(np.exp(surprise))
    assert row("a file").value == pytest.approx(np.exp(surprise - 1) - 1)
    assert row("a file").passed == passes


def test_an_answer_that_is_no_number_fails():
    metric = Perplexity(TRAINED, [np.ones(2)], lambda model: [np.array([np.nan, 1.0])])
    _, row = metric.measured(None)
    assert not row("a file").passed
