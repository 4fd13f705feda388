"""Comparison of exports with Keras, for models with one answer for each word."""

from collections.abc import Mapping
from typing import assert_never

import numpy as np

from transbeam.configs.schema.objectives.objective import (
    TokenChoiceObjective,
    WordsObjective,
)
from transbeam.serving.parity.base.parity_checks import ParityCheck, at_most, largest
from transbeam.serving.parity.base.pooled_answers import AnswerParity, ChoiceParity


class TagParity(ChoiceParity):
    """Compares tag log-probabilities (N, C), in nats; the largest gives the tag."""

    decision, target = "tag", "label_ids"
    columns = ("tags", "scores")

    def saved_model_rows(
        self,
        form: str,
        answers: Mapping[str, np.ndarray],
        reference: np.ndarray,
        limit: float,
    ) -> list[ParityCheck]:
        tags = [self.labels.index(tag.decode()) for tag in answers["tags"]]
        chosen = reference[np.arange(len(tags)), tags]
        scores = np.log(answers["scores"], dtype=np.float64)
        off = largest(scores - chosen)
        # Either of two equally probable tags may be predicted.
        lost = largest(reference.max(axis=1) - chosen)
        return [
            at_most(form, "log-probability, largest difference", off, limit),
            at_most(form, "log-probability below the best tag's", lost, limit),
        ]


def make_word_parity(objective: WordsObjective) -> AnswerParity:
    """Makes the `AnswerParity` of an objective with an answer for each word."""
    if isinstance(objective, TokenChoiceObjective):
        return TagParity(objective.labels)
    assert_never(objective)
