"""Shots: solved questions before a question, drawn for each question by a seed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transbeam.configs.base.errors import DataError
from transbeam.pipeline.documents.document import document_hash
from transbeam.pipeline.documents.randomness import stage_key, uniform
from transbeam.trainer.tasks.questions import Question


@dataclass(frozen=True)
class ShotPool:
    """The questions from which shots are drawn.

    A question's shots depend on the seed, the task and the question's own prompt, so
    they are the same whatever other questions are asked and in which order. Of several
    numbers of shots the smaller is a part of the larger: the first ones.

    A question is never its own shot: neither itself nor another with the same prompt.

    Attributes:
        questions: The questions, whose right answers the shots show.
        key: From `stage_key`.

    Example:
    >>> pool = ShotPool.from_seed(
    ...     [Question("a", n, f"{n}+0=", (f"{n}",)) for n in range(9)], 0, "sums"
    ... )
    >>> [shot.prompt for shot in pool.draw(Question("b", 0, "7+1=", ("8",)), 2)]
    ['4+0=', '8+0=']
    """

    questions: Sequence[Question]
    key: int

    @classmethod
    def from_seed(cls, questions: Sequence[Question], seed: int, task: str):
        """Makes the pool of a task."""
        return cls(questions, stage_key(seed, f"shots/{task}"))

    def draw(self, question: Question, count: int) -> list[Question]:
        """Draws different questions at random, without the question itself.

        Raises:
            DataError: There are too few others.
        """
        if not count:
            return []
        asked = np.full(1, document_hash(question.prompt), np.uint64)
        order = np.argsort(uniform(self.key, asked, np.arange(len(self.questions))))
        shots: list[Question] = []
        for number in order.tolist():
            if self.questions[number].prompt != question.prompt:
                shots.append(self.questions[number])
            if len(shots) == count:
                return shots
        raise DataError(
            f"shots={count}: only {len(shots)} other questions are there to draw from. "
            "Ask for fewer shots, or name a larger shots_source"
        )
