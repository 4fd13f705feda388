"""Token ids of contexts and answers that fit into a model.

A prompt and the answer after it are tokenized as one text, as in a document, and split
where the prompt's own tokens end. White space at the end of a prompt is moved to the
answer, since tokens begin with it (as in lm-evaluation-harness).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transbeam.pipeline.records.token_rows import tokenize_texts
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.tasks.prompts import PromptFormat
from transbeam.trainer.tasks.questions import Question

APART = "answers tokenized apart, as a token would span the end of the prompt"
FEWER_SHOTS = "prompts with fewer shots, which the model's maximum length asks for"
CUT = "prompts without their beginning, which the model's maximum length asks for"


@dataclass(frozen=True)
class Context:
    """The tokens that a model reads before an answer.

    Attributes:
        token_ids: int32 (P,), at least one token.
        shots: The shots in it.
    """

    token_ids: np.ndarray
    shots: Sequence[Question]


@dataclass(frozen=True)
class ContextBuilder:
    """Tokenizes contexts and answers for a model.

    Attributes:
        prompts: The form of the prompts.
        tokenizer: The run's tokenizer.
        max_length: Maximum number of tokens that the model reads.
    """

    prompts: PromptFormat
    tokenizer: Tokenizer
    max_length: int

    def answer_ids(
        self, questions: Sequence[Question], notes: Counter[str]
    ) -> list[tuple[np.ndarray, ...] | str]:
        """Tokenizes the answers of each question.

        Args:
            questions: The questions.
            notes: Gets the number of answers that are tokenized apart.

        Returns:
            For each question the ids of its answers, int32 (Q,) each, of at least one
            token; or the reason why the answers cannot be scored.
        """
        whole = [self.prompts.context([], question) for question in questions]
        prompts = [prompt.rstrip() for prompt in whole]
        counts = [len(question.answers) for question in questions]
        owners = np.repeat(np.arange(len(questions)), counts).tolist()
        answers = [
            prompt[len(prompt.rstrip()) :] + self.prompts.answer(answer)
            for prompt, question in zip(whole, questions, strict=True)
            for answer in question.answers
        ]
        before = self._rows(prompts)
        joined = self._rows(
            [
                prompts[owner] + answer
                for owner, answer in zip(owners, answers, strict=True)
            ]
        )
        apart: dict[str, np.ndarray] = {}
        found: list[np.ndarray] = []
        for owner, answer, ids in zip(owners, answers, joined, strict=True):
            length = len(before[owner])
            if length < len(ids) and np.array_equal(ids[:length], before[owner]):
                found.append(ids[length:])
                continue
            if answer not in apart:
                (apart[answer],) = self._rows([answer])
            notes[APART] += 1
            found.append(apart[answer])
        splits = np.cumsum([0, *counts])
        return [
            self._checked(question, tuple(found[start:end]))
            for question, start, end in zip(
                questions, splits[:-1], splits[1:], strict=True
            )
        ]

    def contexts(
        self,
        questions: Sequence[Question],
        shots: Sequence[Sequence[Question]],
        rooms: Sequence[int],
        notes: Counter[str],
    ) -> list[Context]:
        """Tokenizes the contexts, framed as documents are.

        Args:
            questions: The questions.
            shots: The shots of each question.
            rooms: The maximum number of tokens of each context. Shots that do not fit
                are left out, the first ones first; if the prompt alone does not fit,
                its beginning is left out.
            notes: Gets the number of contexts that were changed.
        """
        used = [list(of) for of in shots]
        found: list[np.ndarray] = [np.zeros(0, np.int32)] * len(questions)
        rows = list(range(len(questions)))
        while rows:
            texts = [self.prompts.context(used[row], questions[row]) for row in rows]
            again = []
            for row, ids in zip(
                rows, self._rows([x.rstrip() for x in texts]), strict=True
            ):
                found[row] = self._framed(ids)
                if len(found[row]) <= rooms[row]:
                    continue
                if used[row]:
                    del used[row][0]
                    again.append(row)
                else:
                    found[row] = self._last(found[row], rooms[row])
                    notes[CUT] += 1
            rows = again
        pairs = zip(used, shots, strict=True)
        fewer = sum(len(kept) < len(given) for kept, given in pairs)
        if fewer:
            notes[FEWER_SHOTS] += fewer
        return [Context(ids, kept) for ids, kept in zip(found, used, strict=True)]

    def _checked(
        self, question: Question, answers: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, ...] | str:
        problem = self.prompts.problem(question)
        if problem is not None:
            return problem
        if not all(map(len, answers)):
            return "an answer without tokens"
        if max(map(len, answers)) > self.max_length:
            return f"an answer of more than {self.max_length:,} tokens"
        if len({ids.tobytes() for ids in answers}) < len(answers):
            return "two answers with the same tokens"
        return answers

    @property
    def _begin(self) -> int | None:
        """The token before a document; None if documents begin without one."""
        special = self.tokenizer.special
        return None if special.begin == special.end else special.begin

    def _framed(self, ids: np.ndarray) -> np.ndarray:
        """Puts the begin token before a context; before an empty one the end token."""
        begin = self._begin
        if begin is None and not len(ids):
            begin = self.tokenizer.special.end
        return ids if begin is None else np.insert(ids, 0, begin)

    def _last(self, ids: np.ndarray, room: int) -> np.ndarray:
        """Keeps the begin token and the last tokens of a context."""
        if self._begin is None or room < 2:
            return ids[-room:]
        return np.concatenate([ids[:1], ids[len(ids) - room + 1 :]])

    def _rows(self, texts: Sequence[str]) -> list[np.ndarray]:
        rows = tokenize_texts([text.encode("utf-8") for text in texts], self.tokenizer)
        return np.split(rows.ids, rows.row_splits[1:-1])
