"""Shots: drawn for each question, and never the question itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.tasks.task_samples import question
from transbeam.configs.base.errors import DataError
from transbeam.trainer.tasks.shots import ShotPool

POOL = [question(f"question {n}", offset=n) for n in range(12)]


@given(st.integers(0, 11), st.integers(0, 10), st.integers(0, 99))
def test_shots_are_different_and_never_the_question(number, count, seed):
    shots = ShotPool.from_seed(POOL, seed, "t").draw(POOL[number], count)
    prompts = {shot.prompt for shot in shots}
    assert len(prompts) == len(shots) == count
    assert POOL[number].prompt not in prompts


def test_fewer_shots_are_the_first_of_more():
    pool = ShotPool.from_seed(POOL, 0, "t")
    assert pool.draw(POOL[3], 8)[:3] == pool.draw(POOL[3], 3)


def test_shots_depend_on_question_seed_and_task():
    drawn = [
        ShotPool.from_seed(POOL, seed, task).draw(asked, 6)
        for seed, task, asked in [(0, "t", 0), (1, "t", 0), (0, "u", 0), (0, "t", 1)]
        for asked in [POOL[asked]]
    ]
    assert all(drawn[0] != other for other in drawn[1:])


def test_every_question_is_drawn_equally_often():
    pool = ShotPool.from_seed(POOL, 5, "t")
    asked = [question(f"asked {n}") for n in range(3000)]
    first = [pool.draw(one, 1)[0].offset for one in asked]
    counts = [first.count(n) for n in range(12)]
    assert min(counts) > 250 - 75  # five standard deviations of a binomial
    assert max(counts) < 250 + 75


def test_another_question_with_the_same_prompt_is_no_shot():
    twin = question("question 1", "b", offset=99)
    shots = ShotPool.from_seed([*POOL, twin], 0, "t").draw(POOL[1], 11)
    assert {shot.prompt for shot in shots} == {f"question {n}" for n in range(12)} - {
        "question 1"
    }


def test_too_few_others_are_an_error():
    pool = ShotPool.from_seed(POOL, 0, "t")
    with pytest.raises(DataError, match="shots=12: only 11 other questions"):
        pool.draw(POOL[0], 12)
