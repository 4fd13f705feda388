"""Ids of contexts and answers: where they are split, and what fits."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.pipeline.objectives.test_dialogue import MARKERS, tokenizer_of
from tests.trainer.tasks.task_samples import TOKENIZER, question, task, text_of
from transbeam.trainer.tasks.contexts import (
    APART,
    CUT,
    FEWER_SHOTS,
    ContextBuilder,
)
from transbeam.trainer.tasks.prompts import ChatPrompts, TextPrompts

END_ID = TOKENIZER.special.end


def builder(max_length: int = 64, **keys) -> ContextBuilder:
    return ContextBuilder(TextPrompts(task(**keys)), TOKENIZER, max_length)


def answers(asked, **keys) -> tuple[list[str], Counter]:
    notes = Counter()
    (found,) = builder(**keys).answer_ids([asked], notes)
    assert not isinstance(found, str), found
    return [text_of(ids) for ids in found], notes


def contexts(asked, shots, room: int, **keys):
    notes = Counter()
    (found,) = builder(**keys).contexts([asked], [shots], [room], notes)
    return text_of(found.token_ids), [shot.prompt for shot in found.shots], notes


def test_an_answer_begins_with_the_space_before_it():
    found, notes = answers(question("is", "a", "no"))
    assert found == [" a", " no"]
    assert not notes


def test_white_space_at_the_end_of_a_prompt_belongs_to_the_answer():
    found, notes = answers(question("is ", "a"), separator="")
    assert found == [" a"]
    assert not notes
    text, _, _ = contexts(question("is ", "a"), [], room=9, separator="")
    assert text == "is"


def test_an_answer_whose_token_would_span_the_prompt_is_tokenized_apart():
    found, notes = answers(question("ab", "cd"), separator="")
    assert found == ["cd"]
    assert notes == {APART: 1}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("x" * 65, "a"), "an answer of more than 64 tokens"),
        (("a", "a"), "two answers with the same tokens"),
    ],
)
def test_answers_that_cannot_be_scored(given, problem):
    assert builder().answer_ids([question("q", *given)], Counter()) == [problem]


def test_an_empty_context_has_the_token_between_documents():
    (found,) = builder().contexts([question(" ")], [[]], [9], Counter())
    assert found.token_ids.tolist() == [END_ID]


def test_the_begin_token_stands_before_every_context_once():
    special = replace(TOKENIZER.special, begin=7)
    begun = type("Begun", (), {"special": special, "tokenize": TOKENIZER.tokenize})()
    maker = replace(builder(), tokenizer=begun)
    given = [question("xy"), question("x" * 20)]
    found = maker.contexts(given, [[], []], [9, 9], notes := Counter())
    assert found[0].token_ids.tolist() == [7, *TOKENIZER.tokenize(["xy"]).values]
    assert found[1].token_ids[0] == 7
    assert text_of(found[1].token_ids[1:]) == "x" * 8
    assert notes == {CUT: 1}


def test_shots_that_do_not_fit_are_left_out_whole_the_first_ones_first():
    shots = [question(f"s{n}") for n in range(4)]
    keys = {"description": "D", "shot_separator": ";"}
    whole = "D;s0 a;s1 a;s2 a;s3 a;q"  # `Ġa` is one token
    text, kept, notes = contexts(question("q"), shots, room=19, **keys)
    assert (text, kept, notes) == (whole, ["s0", "s1", "s2", "s3"], {})
    text, kept, notes = contexts(question("q"), shots, room=18, **keys)
    assert text == "D;s1 a;s2 a;s3 a;q"
    assert kept == ["s1", "s2", "s3"]
    assert notes == {FEWER_SHOTS: 1}
    text, kept, notes = contexts(question("q"), shots, room=2, **keys)
    assert (text, kept) == (";q", [])
    assert notes == {FEWER_SHOTS: 1, CUT: 1}


def test_conversations_for_models_that_learned_them():
    tokenizer = tokenizer_of("chatml", *MARKERS)
    keys = task(description="Be brief.", separator="unused")
    prompts = ChatPrompts(keys, tokenizer.chat_format)
    text = prompts.context([question("1+1", "2")], question("2+3", "5"))
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1+1<|im_end|>\n"
        "<|im_start|>assistant\n2<|im_end|>\n<|im_start|>user\n2+3<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert prompts.answer("5") == "5"
    typed = question("<|im_end|>", "5")
    assert prompts.problem(typed) == "the chat template's '<|im_end|>' in a text"
    maker = ContextBuilder(prompts, tokenizer, 512)
    assert maker.answer_ids([typed], Counter()) == [prompts.problem(typed)]
    (found,) = maker.answer_ids([question("2+3", "5")], Counter())
    assert not isinstance(found, str)
    assert [tokenizer.pieces[token] for token in found[0]] == ["Ċ", "5"]
