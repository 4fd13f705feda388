"""Predictions of each kind of model, against its signatures and a TFLite file."""

from typing import Any

import numpy as np
import pytest

from tests.contracts.test_objectives import config_of
from tests.serving.session import asking
from tests.serving.untrained import untrained_of
from transbeam.configs.schema.objectives.traits import input_names
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.phone.conversion.tflite_converter import convert
from transbeam.serving.studio.answering_model import AnsweringModel
from transbeam.serving.studio.answers import Answer
from transbeam.serving.studio.studio_error import StudioError

TEXT = "Returns a [MASK] of the [MASK], or raises an error."
SHORT = "a list of names"
POOLED = (
    "classification",
    "pair_classification",
    "sentence_pairs",
    "multi_label_classification",
    "regression",
    "pair_regression",
)
WRITERS = ("causal", "prefix", "seq2seq", "span_corruption", "text_to_text")


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("tokenizers"), {}

    def make(kind: str) -> tuple[TrainedRun, AnsweringModel]:
        if kind not in made:
            trained = untrained_of(config_of(kind), folder)
            made[kind] = trained, AnsweringModel(trained)
        return made[kind]

    return make


def texts_of(trained: TrainedRun) -> dict[str, str]:
    names = list(input_names(trained.config.objective))
    texts = dict.fromkeys(names, SHORT)
    if trained.config.model.kind != "decoder":  # it has to have room for new tokens
        texts[names[0]] = TEXT
    if trained.config.model.kind == "seq2seq":
        texts["target_text"] = SHORT
    return texts


def served(trained: TrainedRun, signature: str, **texts: str) -> dict[str, Any]:
    given = {name: [text] for name, text in texts.items()}
    answers = asking(trained)(signature, given)
    return {name: values[0] for name, values in answers.items()}


def shown(answer: Answer, number: int) -> dict[str, float]:
    """The probabilities of a prediction by name."""
    shares = answer.predictions[number].probabilities
    return dict(zip(answer.outcomes.shown, shares, strict=True))


def test_fills_of_masks(make):
    trained, model = make("masked")
    found = model.answer({"text": TEXT})
    expected = served(trained, "serving_default", text=TEXT)
    assert (found.kind, len(found.predictions)) == ("fills", 2)
    for number, prediction in enumerate(found.predictions):
        assert prediction.probabilities.sum() == pytest.approx(1)
        best = np.sort(prediction.probabilities)[::-1][: len(expected["scores"][0])]
        np.testing.assert_allclose(best, expected["scores"][number], rtol=1e-4)
        top = found.outcomes.shown[prediction.probabilities.argmax()]
        assert top.encode() == expected["fills"][number][0]
    assert model.answer({"text": "no mask"}).predictions == []


@pytest.mark.parametrize("kind", POOLED)
def test_one_answer(kind, make):
    trained, model = make(kind)
    texts = texts_of(model.trained)
    expected = served(trained, "serving_default", **texts)
    found = model.answer(texts)
    [prediction] = found.predictions
    scores = np.ravel(expected.get("scores", expected.get("score")))
    np.testing.assert_allclose(prediction.probabilities, scores, rtol=1e-4, atol=1e-6)
    if "classes" in expected:
        names = [name.decode() for name in expected["classes"]]
        assert list(found.outcomes.names) == names


def test_tags_of_words_over_several_rows(make):
    trained, model = make("token_classification")
    text = TEXT * 9
    expected = served(trained, "serving_default", text=text)
    found = model.answer({"text": text})
    assert len(found.predictions) > trained.config.model.max_sequence_length
    words = [word.decode() for word in expected["words"]]
    assert [prediction.text for prediction in found.predictions] == words
    best = [prediction.probabilities.max() for prediction in found.predictions]
    np.testing.assert_allclose(best, expected["scores"], rtol=1e-4)
    assert model.answer({"text": "  "}).predictions == []


@pytest.mark.parametrize("times", [1, 8])
def test_spans_of_a_context(times, make):
    trained, model = make("span_qa")
    texts = {"question": "Which error?", "context": TEXT * times}
    expected = served(trained, "serving_default", **texts)
    found = model.answer(texts)
    [prediction] = found.predictions
    assert prediction.probabilities.sum() <= 1 + 1e-9
    # The first outcome is that there is no answer; the second is the best one.
    name = f"{expected['start']}-{expected['end']}"
    assert found.outcomes.names[:2] == ("", name)
    assert found.outcomes.shown[1].encode() == expected["answer"].strip()
    ratio = np.log(prediction.probabilities[1] / prediction.probabilities[0])
    difference = expected["score"] - expected["no_answer_score"]
    assert ratio == pytest.approx(difference, abs=1e-3)
    empty = model.answer({"question": "Which error?", "context": ""})
    assert empty.predictions[0].probabilities.tolist() == [1]


@pytest.mark.parametrize("kind", ["causal", "seq2seq", "text_to_text"])
def test_next_tokens_have_the_likelihood_of_the_text(kind, make):
    trained, model = make(kind)
    texts = texts_of(trained)
    found = model.answer(texts)
    *inside, last = found.predictions
    end = trained.tokenizer.special.end
    chosen = [one.probabilities[one.actual] for one in inside]
    assert last.actual is None
    total = np.log([*chosen, last.probabilities[end]]).sum()
    expected = served(trained, "score", **texts)
    assert total == pytest.approx(expected["log_likelihood"], rel=1e-3)
    assert len(found.predictions) == expected["num_tokens"]


@pytest.mark.parametrize("kind", WRITERS)
def test_written_text(kind, make):
    trained, model = make(kind)
    texts = texts_of(trained)
    found = model.answer(texts)
    texts.pop("target_text", None)
    written = served(trained, "serving_default", **texts)["generated_text"].decode()
    assert found.written
    assert written.startswith(found.written) or found.written.startswith(written)
    if kind == "prefix":
        assert len(found.predictions) == 1


@pytest.mark.parametrize(
    "kind",
    [
        "masked",
        "classification",
        "token_classification",
        "span_qa",
        "causal",
        "prefix",
        "seq2seq",
    ],
)
def test_a_tflite_file_predicts_the_same(kind, make, tmp_path):
    trained, model = make(kind)
    endpoints = model.task.phone_endpoints()
    content = convert(endpoints, model.task.max_length, tmp_path)
    texts = texts_of(trained)
    if kind == "masked":  # more than a file takes at once
        texts["text"] = TEXT * 3
    keras, tflite = model.answer(texts), model.answer(texts, TFLiteRunner(content))
    assert len(keras.predictions) == len(tflite.predictions) > 0
    assert keras.outcomes.names[:2] == tflite.outcomes.names[:2]
    for one, other in zip(keras.predictions, tflite.predictions, strict=True):
        assert (one.number, one.text, one.actual) == (
            other.number,
            other.text,
            other.actual,
        )
        np.testing.assert_allclose(
            one.probabilities[:2], other.probabilities[:2], atol=1e-4
        )
    assert keras.written == tflite.written


@pytest.mark.parametrize(
    ("kind", "told"),
    [("image_classification", "images"), ("contrastive_pairs", "predicts nothing")],
)
def test_a_model_without_predictions_for_texts_says_so(make, kind, told):
    _, model = make(kind)
    with pytest.raises(StudioError, match=told):
        model.answer({"text": SHORT})
