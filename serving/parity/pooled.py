"""Parity of exported classifiers and regression models with Keras."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from transbeam.configs.schema.objectives.objective import PooledObjective
from transbeam.configs.schema.objectives.traits import traits
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.parity_checks import ParityCheck, tokens_row
from transbeam.serving.parity.base.parity_texts import labelled_texts
from transbeam.serving.parity.base.pooled_answers import make_pooled_parity
from transbeam.serving.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.runtimes.saved_model import AskTexts


@dataclass(frozen=True)
class ExpectedScores:
    """The reference outputs for one text or pair.

    Attributes:
        texts: The text, or both texts.
        inputs: int32 (T,) each, the model's inputs.
        answer: float64: log-probabilities (C,) in nats, or the number ().
    """

    texts: tuple[str, ...]
    inputs: dict[str, np.ndarray]
    answer: np.ndarray


class PooledJudge:
    """Checks classifiers and regression models; see `Judge`.

    Args:
        trained: The Keras model.
        texts: Texts, or pairs of them; latency is measured on the first.
    """

    def __init__(self, trained: TrainedRun, texts: Sequence[tuple[str, ...]]):
        objective = trained.config.objective
        assert isinstance(objective, PooledObjective)
        self.answer = make_pooled_parity(objective)
        self.signature = str(traits(objective).ids_signature)
        self.tolerance = trained.config.export.tolerance
        self.trained = trained
        self.expected = [self._expect(one) for one in texts]

    @classmethod
    def from_run(cls, trained: TrainedRun, run_folder: Path) -> "PooledJudge":
        """Returns a checker on the texts of `labelled_texts`."""
        return cls(trained, labelled_texts(trained, run_folder))

    @property
    def size(self) -> int:
        return len(self.expected)

    def saved_model_rows(self, form: str, ask: AskTexts) -> list[ParityCheck]:
        answers = ask("serving_default", self._texts(self.expected))
        ids = [one.inputs["token_ids"] for one in self.expected]
        tokens = dict(ask("tokenize", self._texts(self.expected)))
        limit = self.tolerance.saved_model
        return [
            tokens_row(form, tokens, ids),
            *self.answer.saved_model_rows(form, answers, self._reference, limit),
        ]

    def phone_rows(
        self, form: str, variant: str, model: TFLiteRunner
    ) -> list[ParityCheck]:
        answer = np.array([self._phone_answer(model, one) for one in self.expected])
        return self.answer.phone_rows(
            form, variant, answer, self._reference, self.tolerance
        )

    def ask_once(self, ask: AskTexts) -> Mapping[str, np.ndarray]:
        return ask("serving_default", self._texts(self.expected[:1]))

    def ask_phone_once(self, model: TFLiteRunner) -> np.ndarray:
        return self._phone_answer(model, self.expected[0])

    @cached_property
    def _reference(self) -> np.ndarray:
        """Keras's outputs, float64 (N, C) or (N,)."""
        return np.array([one.answer for one in self.expected])

    def _phone_answer(self, model: TFLiteRunner, one: ExpectedScores) -> np.ndarray:
        return self.answer.read(model.ask(self.signature, **one.inputs))

    def _expect(self, texts: tuple[str, ...]) -> ExpectedScores:
        inputs = self._read(texts)
        batch = {name: row[np.newaxis] for name, row in inputs.items()}
        outputs = self.trained.model(batch, training=False)
        alone = {name: np.asarray(value)[0] for name, value in outputs.items()}
        return ExpectedScores(texts, inputs, self.answer.read(alone))

    def _read(self, texts: tuple[str, ...]) -> dict[str, np.ndarray]:
        """Computes the model's inputs for a text or a pair, token by token."""
        trained, special = self.trained, self.trained.tokenizer.special
        room = trained.config.model.max_sequence_length - 1 - len(texts)
        parts = trained.tokenizer.tokenize(texts).to_list()
        while sum(map(len, parts)) > room:
            # The longer text; the second on ties.
            max(reversed(parts), key=len).pop()
        ids, segments = [special.begin], [0]
        for segment, part in enumerate(parts):
            ids += [*part, special.end]
            segments += [segment] * (len(part) + 1)
        inputs = {
            "token_ids": ids,
            "padding_mask": [1] * len(ids),
            "segment_ids": segments,
        }
        return {
            name: np.array(row, np.int32)
            for name, row in inputs.items()
            if name in trained.model.input
        }

    @staticmethod
    def _texts(expected: Sequence[ExpectedScores]) -> dict[str, list[str]]:
        """Returns the inputs of a SavedModel's signatures on texts."""
        columns = zip(*(one.texts for one in expected), strict=True)
        names = ("text", "second_text")
        return {n: list(c) for n, c in zip(names, columns, strict=False)}
