"""Parity of exported models that answer prompts with Keras."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np

from transbeam.configs.base.templates import edge_texts
from transbeam.configs.schema.objectives.supervised import CompletionConfig
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.answer import AnswerParityChecker
from transbeam.serving.parity.generation import ExpectedGeneration


class CompletionParityChecker(AnswerParityChecker):
    """Checks prompts, answers and the scores of answers.

    Args:
        trained: The Keras model.
        texts: Tuples of the fields of prompts.
    """

    def __init__(self, trained: TrainedRun, texts: Sequence[tuple[str, ...]]):
        assert isinstance(trained.config.objective, CompletionConfig)
        self.objective = trained.config.objective
        super().__init__(trained, texts)

    @property
    def separator(self) -> str:
        return self.objective.separator

    def _expect(self, texts: tuple[str, ...]) -> ExpectedGeneration:
        longest = self.trained.config.model.max_sequence_length
        whole = super()._expect(texts)
        ids = self._cut(whole.ids, longest - self.answer_tokens)
        return replace(whole, ids=ids, read=ids, before=ids)

    def _short(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return texts  # the export cuts prompts itself

    def _cut(self, ids: np.ndarray, most: int) -> np.ndarray:
        """Cuts a prompt's ids, with its begin token, as the records do."""
        begin = 1 if self._begins(ids) else 0
        ends = [self._tokens(text) for text in edge_texts(self._template)]
        leading = begin + _common(ids[begin:], ends[0])
        trailing = min(_common(ids[::-1], ends[1][::-1]), len(ids) - leading)
        middle = ids[leading : len(ids) - trailing]
        over = max(len(ids) - most, 0)
        if self.objective.too_long == "truncate_start":
            middle = middle[over:]
        else:
            middle = middle[: max(len(middle) - over, 0)]
        shorter = np.array([*ids[:leading], *middle, *ids[len(ids) - trailing :]])
        return shorter[-most:].astype(np.int32)

    def _begins(self, ids: np.ndarray) -> bool:
        special = self.trained.tokenizer.special
        return special.begin != special.end and ids[0] == special.begin

    @property
    def _template(self) -> str:
        return self.objective.prompt_template

    def _before(self, one: ExpectedGeneration, most: int) -> np.ndarray:
        return self._cut(super()._expect(one.texts).ids, most)


def _common(one: Sequence[int] | np.ndarray, other: Sequence[int]) -> int:
    """Returns the length of the longest common beginning."""
    pairs = zip(one, other, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
