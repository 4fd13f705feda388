"""Parity of exported models that answer prompts with Keras."""

from collections.abc import Sequence

import numpy as np

from transbeam.configs.loader.compatibility import answer_tokens
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.generation import (
    ExpectedGeneration,
    GenerationParityChecker,
)


class AnswerParityChecker(GenerationParityChecker):
    """Checks answers and their scores.

    Args:
        trained: The Keras model.
        texts: Tuples of input texts.
    """

    def __init__(self, trained: TrainedRun, texts: Sequence[tuple[str, ...]]):
        self.answer_tokens = answer_tokens(trained.config)
        super().__init__(trained, texts)
        self.number = min(self.number, self.answer_tokens)

    @property
    def separator(self) -> str:
        """The spaces between a prompt and its answer."""
        raise NotImplementedError

    def _after(self, target: str) -> list[int | None]:
        """Returns the ids of an answer as they follow a prompt, with their end."""
        answer = self._tokens(self.separator + target)
        return [*answer, self.trained.tokenizer.special.end]

    def _before(self, one: ExpectedGeneration, most: int) -> np.ndarray:
        """Returns the ids of a prompt, cut to a number of tokens."""
        return super()._expect(one.texts).ids[-most:]

    def _scored(self, one: ExpectedGeneration, target: str) -> tuple[np.ndarray, int]:
        longest = self.trained.config.model.max_sequence_length
        after = self._after(target)[: longest - 1]
        before = self._before(one, longest - len(after))
        return np.array([*before, *after]), len(before)

    def _text(self, one: ExpectedGeneration, new: np.ndarray) -> bytes:
        new = new[~np.isin(new, self.trained.tokenizer.special.stop)]
        text = self._read(new).decode("utf-8", "replace")
        return text.removeprefix(self.separator).encode()
