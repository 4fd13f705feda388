"""Token ids of contexts for an encoder, and of answers for its decoder.

A context ends as the source texts of records do, with the end token. The decoder
begins anew, so an answer is tokenized alone, as the target texts of records are, and
without the separator that stands before it in a shot.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transbeam.trainer.tasks.contexts import ContextBuilder
from transbeam.trainer.tasks.questions import Question


@dataclass(frozen=True)
class EncoderContextBuilder(ContextBuilder):
    """Tokenizes contexts and answers for an encoder-decoder."""

    def answer_ids(
        self, questions: Sequence[Question], notes: Counter[str]
    ) -> list[tuple[np.ndarray, ...] | str]:
        """Tokenizes the answers of each question, and notes nothing."""
        splits = np.cumsum([0, *(len(question.answers) for question in questions)])
        rows = self._rows([x for question in questions for x in question.answers])
        return [
            self._checked(question, tuple(rows[start:end]))
            for question, start, end in zip(
                questions, splits[:-1], splits[1:], strict=True
            )
        ]

    def _framed(self, ids: np.ndarray) -> np.ndarray:
        """Puts the end token behind a context."""
        end = self.tokenizer.special.end
        assert end is not None  # its training would have ended with an error
        return np.append(ids, np.int32(end))

    def _last(self, ids: np.ndarray, room: int) -> np.ndarray:
        """Keeps the last tokens of a context."""
        return ids[-room:]
