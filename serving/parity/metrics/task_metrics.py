"""Task-metric loss per TFLite variant, on validation records."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol, assert_never

import numpy as np

from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import (
    EmbeddingObjective,
    FillsObjective,
    LabeledObjective,
    NumberObjective,
    SpanObjective,
    TextObjective,
    WordsObjective,
)
from transbeam.configs.schema.objectives.traits import traits
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.parity_checks import (
    ParityCheck,
    at_most,
    first_choice,
)
from transbeam.serving.parity.base.pooled_answers import (
    LabelParity,
    make_pooled_parity,
)
from transbeam.serving.parity.base.word_answers import make_word_parity
from transbeam.serving.parity.metrics.perplexity import of_masks, of_writing
from transbeam.serving.parity.metrics.validation_examples import (
    Outputs,
    ValidationExample,
    labelled,
    run_keras,
)

# The number of records that each file is evaluated on, one by one.
MAX_EXAMPLES = 400
# Of the normal distribution: one chance in twenty.
_ONE_SIDED = 1.645


class TaskMetric(Protocol):
    """The interface of task metrics, which compare TFLite files with Keras."""

    @property
    def name(self) -> str:
        """The metric's name, such as `accuracy`."""
        ...

    @property
    def of_keras(self) -> float:
        """The Keras model's score."""
        ...

    def measured(
        self, model: TFLiteRunner
    ) -> tuple[float, Callable[[str], ParityCheck]]:
        """Returns a TFLite file's score, and a function that makes a `ParityCheck`."""
        ...


class TaskAccuracy:
    """Accuracy: the share of correct predictions, where each target counts separately.

    A TFLite file's accuracy may be lower than Keras's by up to
    `export.tolerance.metric_loss`. With few records a single wrong prediction exceeds
    this limit, so a larger loss fails only if it is significant: by a one-sided sign
    test on the predictions that only one of the models gets right (McNemar, 1947,
    https://doi.org/10.1007/BF02295996), at 5%.
    """

    name = "accuracy"

    def __init__(
        self,
        trained: TrainedRun,
        signature: str,
        questions: Sequence[ValidationExample],
        outputs: tuple[str, ...] = ("logits",),
        decide: Callable[[np.ndarray], np.ndarray] = first_choice,
    ):
        self.signature, self.outputs, self.decide = signature, outputs, decide
        self.questions = questions
        self.limit = trained.config.export.tolerance.metric_loss
        found = run_keras(trained, questions)
        self.keras = np.concatenate(
            [self._hits(*pair) for pair in zip(questions, found, strict=True)]
        )

    @property
    def of_keras(self) -> float:
        return float(self.keras.mean())

    def measured(
        self, model: TFLiteRunner
    ) -> tuple[float, Callable[[str], ParityCheck]]:
        hits = np.concatenate(
            [self._hits(one, self._ask(model, one)) for one in self.questions]
        )
        lost, won = (self.keras & ~hits).sum(), (hits & ~self.keras).sum()
        loss = float(lost - won) / len(hits)
        chance = _ONE_SIDED * float(np.sqrt(lost + won)) / len(hits)

        def row(form: str) -> ParityCheck:
            check = f"accuracy lost, of {self.of_keras:.4f} on {len(hits)} answers"
            return at_most(form, check, loss, self.limit + chance)

        return float(hits.mean()), row

    def _ask(self, model: TFLiteRunner, question: ValidationExample) -> Outputs:
        return model.ask(self.signature, **question.inputs)

    def _hits(self, question: ValidationExample, outputs: Outputs) -> np.ndarray:
        """Returns whether each prediction is correct: bool (N,)."""
        answers = [question.answers(outputs[name]) for name in self.outputs]
        chosen = np.stack([self.decide(answer) for answer in answers], axis=-1)
        right = question.right.reshape(-1, len(answers))
        return (chosen.reshape(right.shape) == right).all(axis=-1)


class Explained:
    """The coefficient of determination of regression scores (R squared).

    The score of a TFLite file may be lower than Keras's by up to
    `export.tolerance.metric_loss`.
    """

    name = "R squared"

    def __init__(
        self,
        trained: TrainedRun,
        signature: str,
        questions: Sequence[ValidationExample],
    ):
        self.signature, self.questions = signature, questions
        self.labels = _joined(one.right for one in questions)
        self.limit = trained.config.export.tolerance.metric_loss
        self.of_keras = self._explained(run_keras(trained, questions))

    def measured(
        self, model: TFLiteRunner
    ) -> tuple[float, Callable[[str], ParityCheck]]:
        found = self._explained(
            model.ask(self.signature, **one.inputs) for one in self.questions
        )

        def row(form: str) -> ParityCheck:
            number = f"{len(self.labels)} texts"
            check = f"R squared lost, of {self.of_keras:.4f} on {number}"
            return at_most(form, check, self.of_keras - found, self.limit)

        return found, row

    def _explained(self, outputs: Iterable[Outputs]) -> float:
        pairs = zip(self.questions, outputs, strict=True)
        scores = _joined(one.answers(each["score"]) for one, each in pairs)
        return float(1 - np.mean((scores - self.labels) ** 2) / self.labels.var())


def _joined(numbers: Iterable[np.ndarray]) -> np.ndarray:
    """Concatenates the scores or targets of all examples, float64 (N,)."""
    return np.concatenate([np.ravel(each).astype(np.float64) for each in numbers])


def make_task_metric(trained: TrainedRun, run_folder: Path) -> TaskMetric | None:
    """Makes the metric of a run's task; None if its records have no targets."""
    objective = trained.config.objective
    if isinstance(objective, TextObjective):
        return of_writing(trained, run_folder)
    if isinstance(objective, SentencePairsConfig | EmbeddingObjective):
        return None
    signature = traits(objective).ids_signature
    questions = list(islice(labelled(trained, run_folder), MAX_EXAMPLES))
    if signature is None or not questions:
        return None
    if isinstance(objective, FillsObjective):
        return of_masks(trained, questions)
    if isinstance(objective, SpanObjective):
        names = ("start_logits", "end_logits")
        return TaskAccuracy(trained, signature, questions, names)
    if isinstance(objective, WordsObjective):
        answer = make_word_parity(objective)
    elif isinstance(objective, LabeledObjective | NumberObjective):
        answer = make_pooled_parity(objective, trained.calibration)
    else:
        assert_never(objective)
    if isinstance(answer, LabelParity):
        return TaskAccuracy(trained, signature, questions, decide=answer.decide)
    labels = _joined(one.right for one in questions)
    # Of labels that are all the same there is nothing to explain.
    return Explained(trained, signature, questions) if np.ptp(labels) else None
