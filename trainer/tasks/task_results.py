"""Results of tasks, and the context in which they are computed."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras

from transbeam.configs.cli.console import Console
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.task_file import PromptedTask
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.metrics.confidence_intervals import Interval
from transbeam.trainer.tasks.asked_questions import AskedQuestions
from transbeam.trainer.tasks.contexts import ContextBuilder
from transbeam.trainer.tasks.encoder_contexts import EncoderContextBuilder
from transbeam.trainer.tasks.prompts import ChatPrompts, TextPrompts


@dataclass(frozen=True)
class TaskContext:
    """Everything that a task reads.

    Attributes:
        config: The run.
        model: Its model for unpacked rows, with its weights.
        tokenizer: Its tokenizer.
        console: Shows progress.
        seed: The seed of the shots and of the intervals.
        limit: Maximum number of questions or texts of a task.
    """

    config: RunConfig
    model: keras.Model
    tokenizer: Tokenizer
    console: Console
    seed: int
    limit: int | None

    @property
    def max_length(self) -> int:
        """The maximum number of tokens that the model reads."""
        return self.config.model.max_sequence_length

    @property
    def has_encoder(self) -> bool:
        """True if an encoder reads the contexts, and a decoder predicts the answers."""
        return isinstance(self.config.model, Seq2SeqModelConfig)

    def context_room(self, answer_length: int) -> int:
        """The maximum number of tokens of a context before a scored answer."""
        if self.has_encoder:
            return self.config.data.sequence_length
        # The last token of an answer is predicted and not read.
        return self.max_length + 1 - answer_length

    def ask(self, task: PromptedTask, most_shots: int) -> AskedQuestions:
        """Reads the questions of a task, and with shots those for them.

        Raises:
            DataError: A source cannot be read or has no question.
        """
        return AskedQuestions.from_task(
            task, self.config, self.seed, self.limit, most_shots
        )

    def context_builder(self, task: PromptedTask) -> ContextBuilder:
        """Makes the builder of a task's contexts, in the form that the model knows."""
        prompts = TextPrompts(task)
        if self.has_encoder:
            return EncoderContextBuilder(prompts, self.tokenizer, self.max_length)
        if isinstance(self.config.objective, DialogueConfig):
            prompts = ChatPrompts(task, self.tokenizer.chat_format)
        return ContextBuilder(prompts, self.tokenizer, self.max_length)


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """The result of a task with one number of shots.

    Attributes:
        task: The task's name.
        kind: The task's kind.
        shots: The number of shots; 0 for a perplexity.
        units: Number of questions or texts that were scored.
        scores: Scores by name, each with a 95% confidence interval.
        baselines: Scores of answers that do not read the question, by name.
        left_out: Number of documents and questions without a score, by reason.
        notes: Number of prompts or answers that were changed, by the kind of change;
            of a perplexity, the number of texts and the token before them.
        answers: A row of plain values for each question or text.
        seconds: The time it took.
    """

    task: str
    kind: str
    shots: int
    units: int
    scores: Mapping[str, Interval]
    baselines: Mapping[str, float] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    answers: Sequence[Mapping[str, Any]] = ()
    seconds: float = 0.0

    @property
    def title(self) -> str:
        """The task's name with the number of shots."""
        if self.kind == "perplexity":
            return self.task
        return f"{self.task}, {shots_title(self.shots)}"

    def as_json(self) -> dict[str, Any]:
        """The values without the answers; NaN in intervals becomes None."""
        return {
            "task": self.task,
            "kind": self.kind,
            "shots": self.shots,
            "units": self.units,
            "scores": {
                name: {
                    end: value if math.isfinite(value) else None
                    for end, value in interval._asdict().items()
                }
                for name, interval in self.scores.items()
            },
            "baselines": dict(self.baselines),
            "left_out": dict(self.left_out),
            "notes": dict(self.notes),
            "seconds": round(self.seconds, 1),
        }


def shots_title(shots: int) -> str:
    """Names a number of shots.

    Example:
    >>> shots_title(1), shots_title(4)
    ('1 shot', '4 shots')
    """
    return f"{shots} shot{'s' * (shots != 1)}"
