"""Parity of exported models with one prediction per input."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from transbeam.configs.schema.objectives.objective import (
    LabeledObjective,
    NumberObjective,
)
from transbeam.configs.schema.objectives.traits import traits
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.keras_outputs import keras_outputs
from transbeam.serving.parity.base.parity_checks import ParityCheck
from transbeam.serving.parity.base.pooled_answers import make_pooled_parity
from transbeam.serving.runtimes.saved_model import AskTexts, Texts


@dataclass(frozen=True)
class PooledExample:
    """An input with the Keras model's prediction.

    Attributes:
        given: Value of each input of `serving_default`: a text or the bytes of a file.
        inputs: Inputs of the model without padding, such as ids int32 (T,).
        answer: float64, the scores that `AnswerParity.read` extracts from the Keras
            model's outputs.
    """

    given: Mapping[str, Any]
    inputs: Mapping[str, np.ndarray]
    answer: np.ndarray


class PooledParityChecker(ABC):
    """Checks classifiers and regression models; see `ParityChecker`.

    Args:
        trained: The Keras model.
        inputs: The attributes `given` and `inputs` of each `PooledExample`; latency is
            measured on the first example.
    """

    def __init__(
        self,
        trained: TrainedRun,
        inputs: Iterable[tuple[Mapping[str, Any], Mapping[str, np.ndarray]]],
    ):
        objective = trained.config.objective
        assert isinstance(objective, LabeledObjective | NumberObjective)
        signature = traits(objective).ids_signature
        assert signature is not None
        self.answer = make_pooled_parity(objective, trained.calibration)
        self.signature = signature
        self.tolerance = trained.config.export.tolerance
        self.trained = trained
        self.expected = [self._expect(*one) for one in inputs]

    @abstractmethod
    def input_row(self, form: str, ask: AskTexts, given: Texts) -> ParityCheck:
        """Compares a SavedModel's preprocessed inputs with those of training."""

    @property
    def size(self) -> int:
        return len(self.expected)

    def saved_model_rows(self, form: str, ask: AskTexts) -> list[ParityCheck]:
        given = self._given(*self.expected)
        answers, limit = ask("serving_default", given), self.tolerance.saved_model
        return [
            self.input_row(form, ask, given),
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
        return ask("serving_default", self._given(self.expected[0]))

    def ask_phone_once(self, model: TFLiteRunner) -> np.ndarray:
        return self._phone_answer(model, self.expected[0])

    @cached_property
    def _reference(self) -> np.ndarray:
        """Keras's predictions, float64 (N, C) or (N,)."""
        return np.array([one.answer for one in self.expected])

    def _phone_answer(self, model: TFLiteRunner, one: PooledExample) -> np.ndarray:
        return self.answer.read(model.ask(self.signature, **one.inputs))

    def _expect(
        self, given: Mapping[str, Any], inputs: Mapping[str, np.ndarray]
    ) -> PooledExample:
        batch = {name: value[np.newaxis] for name, value in inputs.items()}
        outputs = keras_outputs(self.trained, batch)
        alone = {name: value[0] for name, value in outputs.items()}
        return PooledExample(given, inputs, self.answer.read(alone))

    @staticmethod
    def _given(*examples: PooledExample) -> dict[str, list[Any]]:
        """Returns the input columns of a SavedModel for several examples."""
        return {
            name: [one.given[name] for one in examples] for name in examples[0].given
        }
