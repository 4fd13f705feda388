"""Models that find answers: windows, places in code points, the best of them all."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.errors import ArtifactError
from configs.objective import SpanQAConfig
from configs.tokenizer import ByteBPEConfig, UnigramConfig
from serving.export import export
from serving.forms import PhoneModel, ask_saved_model
from serving.gate.answering import AnsweringJudge
from serving.gate.parity import require_passed
from serving.local import LocalClient
from serving.predict import describe, predict
from serving.tasks.answering import NEVER, best_spans
from serving.trained import load_trained
from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.serving.conftest import LENGTH, TINY, invocation_of, make_run
from tests.serving.session import session_on
from trainer.evaluation import questions

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


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name == "byte_bpe" else pytest.mark.thorough)
        for name in CASES
    ],
)
def run(request, tmp_path_factory):
    """A run with each kind of tokenizer, exported: what is trained, and how to ask."""
    config = replace(
        TINY,
        objective=SpanQAConfig(stride=7, max_question_length=8),
        tokenizer=CASES[request.param],
        model=replace(TINY.model, num_segments=2),
        evaluation=replace(TINY.evaluation, max_answer_length=5),
        export=replace(TINY.export, examples=("the dog is lazy\twho is lazy",)),
    )
    folder = make_run(tmp_path_factory.mktemp("answering") / "run", config)
    result = export(invocation_of(folder, config))
    with session_on(folder / "export/saved_model/1") as ask:
        yield load_trained(folder), result, ask, folder


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
        first, last, score = questions.best_spans(begins, ends, inside, 5)
        offset = start - before
        none = begins[0, 0] + ends[0, 0]
        found.append((score[0], first[0] + offset, last[0] + offset, none))
        if start + room >= len(text):
            break
        start += min(objective.stride, room)
    score, first, last, _ = max(found, key=lambda one: one[0])
    return score, first, last, min(one[3] for one in found)


def test_it_passed_the_gate(run):
    _, result, _, _ = run
    assert all(row["passed"] for row in result["parity"])
    assert len(result["parity"]) == 3 * 5 + 3 * 2
    assert set(result["tflite"]) == {"float32", "dynamic_int8"}


def test_answers_are_those_of_the_evaluation(run):
    trained, _, ask, _ = run
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


def test_a_question_does_not_depend_on_its_neighbours(run):
    _, _, ask, _ = run
    together = ask("serving_default", {"context": CONTEXTS, "question": QUESTIONS})
    for row, (context, question) in enumerate(zip(CONTEXTS, QUESTIONS, strict=True)):
        alone = ask("serving_default", {"context": [context], "question": [question]})
        for name in ("answer", "start", "end", "truncated"):
            assert alone[name][0] == together[name][row]
        assert alone["score"][0] == pytest.approx(together["score"][row], abs=1e-4)


def test_hostile_texts_and_an_empty_batch(run):
    _, _, _, folder = run
    ask = ask_saved_model(folder / "export/saved_model/1")
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


def test_answers_to_ids_are_keras_s_also_on_phones(run):
    trained, _, _, folder = run
    phone = PhoneModel(folder / "export/tflite/model_float32.tflite")
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


def test_predict_takes_the_question_as_second_text(run):
    _, _, ask, folder = run
    (found,) = predict(
        LocalClient(folder / "export/saved_model/1"), CONTEXTS[:1], QUESTIONS[:1]
    )
    answer = ask(
        "serving_default", {"context": CONTEXTS[:1], "question": QUESTIONS[:1]}
    )
    assert found["answer"].encode() == answer["answer"][0]
    assert found["text"][found["start"] : found["end"]] == found["answer"]
    assert found["answer"] in describe(found)


def test_it_needs_no_python(run, native):
    native(run[-1] / "export/saved_model/1", run[-2])


def test_the_gate_finds_another_model(run):
    trained, _, ask, _ = run
    pairs = list(zip(CONTEXTS, QUESTIONS, strict=True))
    layer = trained.model.get_layer("span_classifier")
    weight = layer.weights[0]
    weight.assign(weight * 1.5)
    try:
        rows = AnsweringJudge(trained, pairs).saved_model_rows("SavedModel", ask)
    finally:
        weight.assign(weight / 1.5)
    with pytest.raises(ArtifactError, match="score of the answer"):
        require_passed(rows)


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
    expected = questions.best_spans(begins, ends, inside, longest)
    found = best_spans(*map(tf.constant, (begins, ends, inside)), longest)
    assert [part.numpy().tolist() for part in found] == [p.tolist() for p in expected]
