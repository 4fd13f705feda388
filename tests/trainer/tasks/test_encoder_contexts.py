"""Contexts of an encoder, and answers of its decoder."""

from collections import Counter

import pytest

from tests.trainer.tasks.task_samples import TOKENIZER, question, task, text_of
from transbeam.trainer.tasks.contexts import CUT, FEWER_SHOTS
from transbeam.trainer.tasks.encoder_contexts import EncoderContextBuilder
from transbeam.trainer.tasks.prompts import TextPrompts

END = TOKENIZER.pieces[TOKENIZER.special.end]
BUILDER = EncoderContextBuilder(TextPrompts(task()), TOKENIZER, 8)


def context(asked, shots, room: int) -> tuple[str, Counter]:
    notes = Counter()
    (found,) = BUILDER.contexts([asked], [shots], [room], notes)
    assert len(found.token_ids) <= room
    return text_of(found.token_ids), notes


def test_an_answer_is_tokenized_alone_without_the_separator():
    asked = [question("ab", "cd", "bc"), question("x", "a")]
    found = BUILDER.answer_ids(asked, notes := Counter())
    assert [[text_of(ids) for ids in of] for of in found] == [["cd", "bc"], ["a"]]
    assert not notes


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        (("x" * 9, "a"), "an answer of more than 8 tokens"),
        (("a", "a"), "two answers with the same tokens"),
    ],
)
def test_answers_that_cannot_be_scored(answers, problem):
    assert BUILDER.answer_ids([question("q", *answers)], Counter()) == [problem]


def test_a_context_has_its_shots_and_ends_with_the_end_token():
    shots = [question("xy", "z")]
    assert context(question("uv"), shots, 9) == (f"xy z\n\nuv{END}", {})
    assert context(question(""), [], 9) == (END, {})


def test_a_context_that_is_too_long_loses_its_beginning():
    shots = [question("xy", "z")]
    assert context(question("uv"), shots, 8) == (f"uv{END}", {FEWER_SHOTS: 1})
    assert context(question("uvwxyz"), [], 4) == (f"xyz{END}", {CUT: 1})
