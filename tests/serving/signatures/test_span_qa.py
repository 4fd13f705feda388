"""Models that find answers: windows, places in code points, the best of them all."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.serving.conftest import LENGTH, TINY, exported_run
from tests.serving.session import AskingClient, asking, session_on
from tests.serving.signatures.parity_scenario import (
    Scene,
    altered,
    failed,
    judged_by_another,
    remembered,
    rows_of,
)
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.objectives.supervised import SpanQAConfig
from transbeam.configs.schema.tokenizer import ByteBPEConfig, UnigramConfig
from transbeam.model.base import answer_spans
from transbeam.serving.base.applied_calibration import AppliedCalibration
from transbeam.serving.parity.attention_maps import attention_rows
from transbeam.serving.parity.export_parity import require_passed
from transbeam.serving.parity.span_qa import SpanQAParityChecker
from transbeam.serving.predict.prediction import describe, predict
from transbeam.serving.signatures.span_qa import NEVER, best_spans
from transbeam.serving.text_ops import row_blocks
from transbeam.trainer.evaluation import span_qa as questions

CONTEXTS = [
    "the name of the list, a tensor of the shape",
    "",
    "an integer or a tuple of ints , the shape of the array . " * 5,
    "ünknown 漢字! the dog",
    "x",
]
QUESTIONS = ["a name", "the shape", "the fox " * 9, "", "of what"]
CASES = {
    "wordpiece": TINY.tokenizer,
    "byte_bpe": ByteBPEConfig(vocabulary_size=300, specials="roberta"),
    "unigram": UnigramConfig(vocabulary_size=60, specials="albert"),
}


def config_of(name):
    return replace(
        TINY,
        objective=SpanQAConfig(stride=7, max_question_length=8),
        tokenizer=CASES[name],
        model=replace(TINY.model, num_layers=1, num_segments=2),
        evaluation=replace(TINY.evaluation, max_answer_length=5),
        export=replace(TINY.export, examples=("the dog is lazy\twho is lazy",)),
    )


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name == "byte_bpe" else pytest.mark.thorough)
        for name in CASES
    ],
)
def scene(request, tmp_path_factory):
    """A run with each kind of tokenizer."""
    folder = tmp_path_factory.mktemp("answering") / "run"
    return Scene.of(folder, config_of(request.param))


def answered_by_keras(trained, context, question):
    """First and last token of the best answer, as the evaluation finds it."""
    special, objective = trained.tokenizer.special, trained.config.objective
    text, asked = trained.tokenizer.tokenize([context, question]).to_list()
    asked = asked[: objective.max_question_length]
    room = LENGTH - 3 - len(asked)
    found = []
    start = 0
    while True:
        window = text[start : start + room]
        ids = [special.begin, *asked, special.end, *window, special.end]
        before = len(asked) + 2
        rows = {
            "token_ids": ids,
            "padding_mask": [1] * len(ids),
            "segment_ids": [0] * before + [1] * (len(window) + 1),
        }
        inputs = {n: np.array([rows[n]], np.int32) for n in trained.model.input}
        outputs = trained.model(inputs, training=False)
        begins, ends = (
            np.asarray(outputs[name], float) for name in ("start_logits", "end_logits")
        )
        inside = np.zeros((1, len(ids)), bool)
        inside[0, before : len(ids) - 1] = True
        first, last, score = answer_spans.best_spans(begins, ends, inside, 5)
        offset = start - before
        none = begins[0, 0] + ends[0, 0]
        found.append((score[0], first[0] + offset, last[0] + offset, none))
        if start + room >= len(text):
            break
        start += min(objective.stride, room)
    score, first, last, _ = max(found, key=lambda one: one[0])
    return score, first, last, min(one[3] for one in found)


@pytest.mark.thorough(
    instead="test_the_gate_passes_true_spans_and_no_others, "
    "test_the_gate_passes_readers_for_phones_and_no_others, "
    "test_an_exported_reader_answers_as_its_functions"
)
@pytest.mark.parametrize("name", CASES)
def test_it_passes_the_gate_and_needs_no_python(name, native):
    made = exported_run(config_of(name))
    assert all(row["passed"] for row in made.result["parity"])
    assert len(made.result["parity"]) == 3 * 5 + 3 * 2
    assert set(made.result["tflite"]) == {"float32", "dynamic_int8"}
    with session_on(made.saved_model) as ask:
        native(made.saved_model, ask)


def test_the_gate_passes_true_spans_and_no_others(scene):
    judge, ask = scene.judge, remembered(scene.ask)
    assert judge.size == 1 + 7 + 3
    rows = judge.saved_model_rows("functions", ask)
    assert len(rows) == 4
    require_passed(rows)

    def found(output, change, signature="serving_default"):
        wrong = altered(ask, signature, output, change)
        return failed(judge.saved_model_rows("altered", wrong))

    assert found("token_ids", lambda ids: ids + 1, "tokenize") == ["token ids"]
    # The scores of texts that have an answer, and of those that have none.
    assert found("score", lambda score: score + 1e-3) == ["score of the answer"]
    assert found("score", lambda score: score - 1e-3) == ["score of the answer"]
    assert found("no_answer_score", lambda s: s + 1e-3) == ["score of no answer"]
    assert found("no_answer_score", lambda s: s - 1e-3) == ["score of no answer"]
    misplaced = "answers that do not stand at their places"
    assert found("start", lambda start: start + 1) == [misplaced]
    assert found("answer", lambda answer: answer + b"x") == [misplaced]


def test_who_looks_at_whom_is_told(scene):
    (row,) = attention_rows("functions", scene.ask, scene.trained)
    require_passed([row])


def test_the_gate_passes_readers_for_phones_and_no_others(scene):
    for variant in ("float32", "dynamic_int8"):
        phone = scene.phone(variant)
        rows = scene.judge.phone_rows("file", variant, phone)
        require_passed(rows)
        assert len(rows) == 1
        other = judged_by_another(scene, partial(rows_of, variant, phone))
        assert other == ["log-probability"]


def test_an_exported_reader_answers_as_its_functions(scene):
    texts = {"context": CONTEXTS, "question": QUESTIONS}
    scene.require_exported_alike(texts, "serving_default", "tokenize")


def test_answers_are_those_of_the_evaluation(scene):
    trained, ask = scene.trained, scene.ask
    answers = ask("serving_default", {"context": CONTEXTS, "question": QUESTIONS})
    for row, texts in enumerate(zip(CONTEXTS, QUESTIONS, strict=True)):
        score, first, last, none = answered_by_keras(trained, *texts)
        said = answers["answer"][row].decode()
        start, end = answers["start"][row], answers["end"][row]
        assert answers["no_answer_score"][row] == pytest.approx(none, abs=1e-4)
        assert texts[0][start:end] == said
        if not texts[0]:
            assert (said, start, end) == ("", 0, 0)
            assert answers["score"][row] == np.float32(NEVER)
            continue
        assert answers["score"][row] == pytest.approx(score, abs=1e-4)
        (expected,) = questions.answer_texts(
            [texts[0].encode()], np.array([first]), np.array([last]), trained.tokenizer
        )
        assert said == expected
    assert answers["truncated"].tolist() == [False, False, True, False, False]


def test_a_fitted_threshold_decides_that_there_is_no_answer(scene):
    texts = {"context": CONTEXTS, "question": QUESTIONS}
    plain = scene.ask("serving_default", texts)
    difference = plain["no_answer_score"] - plain["score"]
    threshold = float(np.median(difference)) + 1e-3
    fitted = AppliedCalibration(no_answer_threshold=threshold)
    trained = replace(scene.trained, calibration=fitted)
    ask = asking(trained)
    found = ask("serving_default", texts)
    is_none = difference > threshold
    assert 0 < is_none.sum() < len(CONTEXTS)
    for name in ("score", "no_answer_score", "truncated"):
        np.testing.assert_array_equal(found[name], plain[name])
    for name, nothing in (("answer", b""), ("start", 0), ("end", 0)):
        expected = np.where(is_none, nothing, plain[name])
        assert found[name].tolist() == expected.tolist()
    pairs = [
        pair for pair in zip(CONTEXTS, QUESTIONS, strict=True) if len(pair[0]) < 99
    ]
    judge = SpanQAParityChecker(trained, pairs)
    rows = judge.saved_model_rows("functions", ask)
    assert len(rows) == 5
    require_passed(rows)
    # An export without the threshold has answers where there are none.
    other = judge.saved_model_rows("altered", scene.ask)
    assert failed(other) == ["answers that are not as the threshold says"]


def test_a_question_does_not_depend_on_its_neighbours(scene):
    ask = scene.ask
    together = ask("serving_default", {"context": CONTEXTS, "question": QUESTIONS})
    for row, (context, question) in enumerate(zip(CONTEXTS, QUESTIONS, strict=True)):
        alone = ask("serving_default", {"context": [context], "question": [question]})
        for name in ("answer", "start", "end", "truncated"):
            assert alone[name][0] == together[name][row]
        assert alone["score"][0] == pytest.approx(together["score"][row], abs=1e-4)


def test_windows_are_read_in_blocks_as_at_once(scene, monkeypatch):
    contexts = ["the list of a tensor. " * 20, "", "a dog", "it's a list " * 15]
    texts = {"question": ["the list?", "a", "", "what is it"], "context": contexts}
    at_once = scene.ask("serving_default", texts)
    monkeypatch.setattr(row_blocks, "_TOKENS", 2 * LENGTH)
    found = scene.ask("serving_default", texts)
    for name, expected in at_once.items():
        if expected.dtype == np.float32:
            np.testing.assert_allclose(found[name], expected, atol=2e-5)
        else:
            assert found[name].tolist() == expected.tolist()


def test_hostile_texts_and_an_empty_batch(scene):
    ask = scene.ask
    texts = list(HOSTILE_TEXTS)
    answers = ask("serving_default", {"context": texts, "question": texts[::-1]})
    for text, said, start, end in zip(
        texts, answers["answer"], answers["start"], answers["end"], strict=True
    ):
        assert text[start:end].encode() == said
    assert np.isfinite(answers["no_answer_score"]).all()
    empty = ask("serving_default", {"context": [], "question": []})
    assert {len(value) for value in empty.values()} == {0}
    raw = ask("serving_default", {"context": [b"a\xffb \xe6"], "question": ["a"]})
    assert raw["answer"][0].decode() in "a\ufffdb \ufffd"


def test_answers_to_ids_are_keras_s_also_on_phones(scene):
    trained, phone = scene.trained, scene.phone()
    ids = np.arange(1, 13, dtype=np.int32)
    rows = {
        "token_ids": ids,
        "padding_mask": np.ones_like(ids),
        "segment_ids": np.repeat([0, 1], 6).astype(np.int32),
    }
    inputs = {name: rows[name] for name in trained.model.input}
    batch = {name: row[np.newaxis] for name, row in inputs.items()}
    expected = trained.model(batch, training=False)
    found = phone.ask("read_ids", **inputs)
    for name in ("start_logits", "end_logits"):
        own = np.asarray(expected[name])[0]
        np.testing.assert_allclose(found[name][: len(ids)], own, atol=1e-4)


def test_predict_takes_the_question_as_second_text(scene):
    ask = scene.ask
    client = AskingClient(ask, "context", "question")
    (found,) = predict(client, CONTEXTS[:1], QUESTIONS[:1])
    answer = ask(
        "serving_default", {"context": CONTEXTS[:1], "question": QUESTIONS[:1]}
    )
    assert found["answer"].encode() == answer["answer"][0]
    assert found["text"][found["start"] : found["end"]] == found["answer"]
    assert found["answer"] in describe(found)


def test_the_gate_finds_another_model(scene):
    ask = remembered(scene.ask)
    require_passed(scene.judge.saved_model_rows("functions", ask))
    layer = scene.trained.model.get_layer("span_classifier")
    weight = layer.weights[0]
    weight.assign(weight * 1.5)
    try:
        judge = SpanQAParityChecker.from_run(scene.trained, scene.folder)
    finally:
        weight.assign(weight / 1.5)
    with pytest.raises(ArtifactError, match="score of the answer"):
        require_passed(judge.saved_model_rows("functions", ask))


@settings(deadline=None, max_examples=60)
@given(
    scores=st.lists(
        st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.booleans()), min_size=1
    ),
    longest=st.integers(1, 9),
)
def test_the_best_span_is_the_evaluation_s(scores, longest):
    begins, ends, inside = (np.array([column]) for column in zip(*scores, strict=True))
    edges = np.flatnonzero(inside[0])
    inside[0] = False
    if not len(edges):
        return
    inside[0, edges[0] : edges[-1] + 1] = True
    begins, ends = begins.astype(np.float32), ends.astype(np.float32)
    expected = answer_spans.best_spans(begins, ends, inside, longest)
    found = best_spans(*map(tf.constant, (begins, ends, inside)), longest)
    assert [part.numpy().tolist() for part in found] == [p.tolist() for p in expected]
