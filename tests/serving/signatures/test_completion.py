"""Models that answer prompts: templates, truncation, answers and their scores."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.serving.conftest import LENGTH, TINY
from tests.serving.signatures.generation_reference import (
    SMALL,
    log_likelihood,
    logits_of,
    rows_of,
)
from tests.serving.signatures.parity_scenario import Scene, altered, failed
from transbeam.configs.cli.progress import SilentBar
from transbeam.configs.schema.evaluation import EvaluationConfig
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.objectives.supervised import CompletionConfig
from transbeam.configs.schema.tokenizer import ByteBPEConfig, UnigramConfig
from transbeam.pipeline.objectives.base import prompt_truncation as in_records
from transbeam.pipeline.objectives.base.prompt_truncation import TemplateWords
from transbeam.pipeline.records.token_rows import split_rows
from transbeam.serving.parity.base.parity_checks import ParityCheck
from transbeam.serving.parity.export_parity import require_passed
from transbeam.serving.signatures.task_factory import make_signature_task
from transbeam.serving.text_ops import prompt_truncation
from transbeam.trainer.evaluation.batch_generate import write_answers

TEXTS = ["a tensor of the same", "", "true , raise an error when " * 9, "ünknown 漢字!"]
OTHERS = ["shape", "true , raise " * 40, "", "a list"]
ANSWERS = ["the shape", "a list", "of", "of all the letters " * 9]
NEW = 6
PROMPT = "Given {text} and {second_text} say: "
TOKENIZERS = {
    "gpt2": ByteBPEConfig(vocabulary_size=300),
    "unigram": UnigramConfig(vocabulary_size=60),
    "roberta": ByteBPEConfig(vocabulary_size=300, specials="roberta"),
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name == "gpt2" else pytest.mark.thorough)
        for name in TOKENIZERS
    ],
)
def run(request, tmp_path_factory):
    """The trained run, and a function that calls its signatures."""
    config = replace(
        TINY,
        objective=CompletionConfig(prompt=PROMPT),
        tokenizer=TOKENIZERS[request.param],
        evaluation=EvaluationConfig(max_new_tokens=NEW),
        model=DecoderConfig(**SMALL),
        export=replace(TINY.export, examples=("a list\tshape",)),
    )
    scene = Scene.of(tmp_path_factory.mktemp("completion") / "run", config)
    return SimpleNamespace(trained=scene.trained, ask=scene.ask, scene=scene)


def columns(texts=TEXTS, others=OTHERS):
    return {"text": list(texts), "second_text": list(others)}


def prompt_ids(trained, text: str, other: str, most: int) -> list[int]:
    """A prompt's ids, cut at the end of its texts, by hand."""
    special, read = trained.tokenizer.special, trained.tokenizer.tokenize
    whole, before, after = read(
        [f"Given {text} and {other} say:", "Given ", " say:"]
    ).to_list()
    begin = [special.begin] if special.begin not in (None, special.end) else []
    if len(begin + whole) <= most:
        return begin + whole
    tail = 0
    while tail < len(after) and after[-1 - tail] == whole[-1 - tail]:
        tail += 1
    assert whole[: len(before) - 1] == before[: len(before) - 1]
    return begin + whole[: most - len(begin) - tail] + whole[len(whole) - tail :]


def test_prompts_are_filled_and_cut_to_leave_room(run) -> None:
    found = run.ask("tokenize", columns())
    expected = [
        prompt_ids(run.trained, *pair, LENGTH - NEW)
        for pair in zip(TEXTS, OTHERS, strict=True)
    ]
    assert rows_of(found) == expected
    whole = [
        prompt_ids(run.trained, *pair, 10**6)
        for pair in zip(TEXTS, OTHERS, strict=True)
    ]
    is_cut = [len(ids) > LENGTH - NEW for ids in whole]
    assert found["truncated"].tolist() == is_cut


def test_answers_are_greedy_and_have_no_space_before_them(run) -> None:
    answers = run.ask("serving_default", columns())
    prompts = rows_of(run.ask("tokenize", columns()))
    for row, prompt in enumerate(prompts):
        new = answers["token_ids"][row, : answers["length"][row]].tolist()
        assert 1 <= len(new) <= NEW
        logits = logits_of(run.trained.model, token_ids=[*prompt, *new])
        assert logits[len(prompt) - 1 : -1].argmax(axis=1).tolist() == new
        silent = {*run.trained.tokenizer.special.ends}
        shown = [token for token in new if token not in silent]
        alone = run.trained.tokenizer.detokenize(_ragged([shown])).numpy()[0]
        text = alone.decode("utf-8", "replace").removeprefix(" ")
        assert answers["generated_text"][row].decode() == text


def _ragged(rows):
    return tf.ragged.constant(rows, dtype=tf.int32, ragged_rank=1)


def test_a_score_is_that_of_the_answer_after_the_prompt(run) -> None:
    trained = run.trained
    found = run.ask("score", {**columns(), "target_text": ANSWERS})
    rows = []
    for row, (text, other, answer) in enumerate(
        zip(TEXTS, OTHERS, ANSWERS, strict=True)
    ):
        (tokens,) = trained.tokenizer.tokenize([f" {answer}"]).to_list()
        after = [*tokens, trained.tokenizer.special.end][: LENGTH - 1]
        before = prompt_ids(trained, text, other, max(LENGTH - len(after), 0))
        before = before[max(len(before) + len(after) - LENGTH, 0) :]
        logits = logits_of(trained.model, token_ids=[*before, *after])
        expected = log_likelihood(logits[len(before) - 1 : -1], after)
        assert found["log_likelihood"][row] == pytest.approx(expected, rel=1e-4)
        assert found["num_tokens"][row] == len(after)
        rows.append((before, after))
    ids = np.zeros((len(rows), LENGTH), np.int32)
    for row, (before, after) in enumerate(rows):
        ids[row, : len(before + after)] = before + after
    lengths = {
        "length": [len(before + after) for before, after in rows],
        "prefix_length": [len(before) for before, _ in rows],
    }
    by_ids = run.ask("score_ids", {"token_ids": ids, **lengths})
    for name in ("log_likelihood", "num_tokens"):
        np.testing.assert_allclose(by_ids[name], found[name], rtol=1e-5)


def test_the_trainer_writes_the_answers_of_the_export(run) -> None:
    config = run.trained.config
    texts = [
        f"Given {text} and {other} say:".encode()
        for text, other in zip(TEXTS, OTHERS, strict=True)
    ]
    written = write_answers(
        texts, run.trained.model, run.trained.tokenizer, config, SilentBar()
    )
    answers = run.ask("serving_default", columns())
    assert written == [text.decode() for text in answers["generated_text"]]


def test_only_the_separator_is_removed_from_an_answer(run) -> None:
    """Also in streams, which detokenize by the same function."""
    tokenizer, writer = run.trained.tokenizer, make_signature_task(run.trained).writer
    before = tokenizer.tokenize(["say:", "say:"])
    found = writer.text(before, tokenizer.tokenize([" a list", "a  list"]))
    expected = tokenizer.detokenize(tokenizer.tokenize(["a list", "a  list"]))
    assert found.numpy().tolist() == expected.numpy().tolist()


@given(
    st.lists(st.lists(st.integers(1, 4), max_size=9), min_size=1, max_size=4),
    st.lists(st.integers(1, 4), max_size=3),
    st.lists(st.integers(1, 4), max_size=3),
    st.integers(1, 8),
    st.sampled_from(["truncate_start", "truncate_end"]),
)
@settings(max_examples=60)
def test_the_graph_cuts_as_the_records_do(rows, before, after, most, side) -> None:
    words = TemplateWords(np.array(before, np.int32), np.array(after, np.int32))
    ragged = _ragged(rows)
    cut, was_cut = prompt_truncation.truncate_prompts(
        ragged, np.full(len(rows), most), words, from_start=side == "truncate_start"
    )
    expected = _cut_by_records(rows, words, most, side)
    assert cut.to_list() == expected
    assert was_cut.numpy().tolist() == [
        len(a) != len(b) for a, b in zip(rows, expected, strict=True)
    ]


def _cut_by_records(rows, words, most, side):
    ids = np.array([i for row in rows for i in row], np.int32)
    prompts = split_rows(ids, np.array([len(row) for row in rows]))
    config = CompletionConfig(prompt="{text}", too_long=side)
    leading, trailing = words.count(prompts)
    over = np.maximum(prompts.lengths - most, 0)
    cut = np.minimum(over, prompts.lengths - leading - trailing)
    starts = in_records.cut_starts(prompts, cut, leading, trailing, config)
    found = in_records.drop_tokens(prompts, starts, cut)
    return [row.tolist() for row in np.split(found.ids, found.row_splits[1:-1])]


def test_hostile_texts_and_an_empty_batch(run) -> None:
    texts = [b"\xff\xfe\x00\xe6", *HOSTILE_TEXTS]
    given = columns(texts, texts[::-1])
    found = run.ask("score", {**given, "target_text": texts[::-1]})
    assert np.isfinite(found["log_likelihood"]).all()
    for text in run.ask("serving_default", given)["generated_text"]:
        text.decode("utf-8")
    nothing = np.array([], object)
    empty = run.ask("tokenize", {"text": nothing, "second_text": nothing})
    assert {len(value) for value in empty.values()} == {0}


def test_the_parity_check_passes_and_finds_answers_with_the_space(run) -> None:
    judge, ask = run.scene.judge, run.ask
    require_passed(judge.saved_model_rows("functions", ask))
    spaced = altered(
        ask, "generate", "generated_text", lambda texts: b" " + texts.astype(object)
    )
    rows: list[ParityCheck] = judge.saved_model_rows("spaced", spaced)
    assert failed(rows) == ["texts of the same tokens that differ"]
