"""The file of `transbeam evaluate --tasks`: tasks that a model does without training.

A language model is given a few solved examples, the *shots*, and then a question (Brown
et al., 2020, https://arxiv.org/abs/2005.14165, section 2).
"""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import check_options, option
from transbeam.configs.base.templates import template_fields
from transbeam.configs.schema.evaluation import TextScore
from transbeam.configs.schema.run import FOLDER_NAME
from transbeam.configs.schema.sources import SingleSource

_NAME = "Name of the task in the results."
_PROMPT = (
    "The question as a template, such as `{text}\\nAnswer:`, with the fields of a "
    "document in braces. No space at its end: `separator` stands there."
)


@dataclass(frozen=True, kw_only=True)
class ChoiceConfig:
    """An answer that all questions of a task let choose."""

    label: str
    """The label of the questions to which this is the right answer, as in the data."""

    text: str
    """The words for the label, such as `positive`."""

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ConfigError(
                f"text={self.text!r}: a choice without words has no likelihood"
            )


@dataclass(frozen=True, kw_only=True)
class PromptedTaskConfig:
    """The keys of tasks with a prompt and shots."""

    name: str = option(doc=_NAME)
    source: SingleSource
    """The questions."""

    shots_source: SingleSource | None = None
    """Source of the shots, such as the training split. Left out: the shots are other
    questions of `source`.
    """

    description: str = ""
    """Text before the shots and the question, such as an instruction."""

    prompt: str = option(doc=_PROMPT)
    separator: str = " "
    """Text between a prompt and its answer."""

    shot_separator: str = "\n\n"
    """Text after the description and after each shot."""

    shots: tuple[int, ...] | None = None
    """Numbers of shots: the task is done with each of them. Left out: those of the
    file.
    """

    def __post_init__(self) -> None:
        check_options(self)
        template_fields("prompt", self.prompt)
        if self.prompt != self.prompt.rstrip():
            raise ConfigError(
                f"prompt={self.prompt!r} ends with white space. Take it away, and "
                "write it in `separator`: tokens that begin with a space belong to "
                "the answer"
            )
        check_shots(self.shots)


@dataclass(frozen=True, kw_only=True)
class ChoiceTaskConfig(PromptedTaskConfig):
    """A choice among answers by their likelihood after the prompt."""

    kind: Literal["choice"] = "choice"
    choices: tuple[ChoiceConfig, ...] = ()
    """The answers, if they are the same for all questions: a list of
    {label: ..., text: ...}. Left out: those of each document (`columns.choices`).
    """

    answer: Literal["number", "number_from_1", "letter", "text"] = "number"
    """The form of a document's label, if the choices are the document's own: the number
    of the right choice, counted from 0 or from 1; its letter, from `A`; or its text.
    """

    unconditional_prompt: str | None = None
    """A prompt without the question, such as `Answer:`. If given, choices are also
    ranked by how much more likely the question makes them than this prompt does.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.choices) == 1:
            raise ConfigError("choices: expected at least two, found one")
        for key in ("label", "text"):
            counts = Counter(getattr(choice, key) for choice in self.choices)
            if doubled := [value for value, count in counts.items() if count > 1]:
                raise ConfigError(f"choices: the {key} {doubled[0]!r} occurs twice")


@dataclass(frozen=True, kw_only=True)
class GenerationTaskConfig(PromptedTaskConfig):
    """An answer that the model writes, greedily, compared with the right one."""

    kind: Literal["generation"] = "generation"
    target: str = "{target_text}"
    """The right answer as a template; the texts of `columns.references` are right, too.
    For `kind: squad` it is `{answers}`: the first
    answer in the shots, and the best match among all of them in the scores.
    """

    no_answer: str = "unanswerable"
    """The answer to a question of `kind: squad` that has none. In the scores it is the
    empty answer of SQuAD 2.0.
    """

    stop: tuple[str, ...] = ("\n",)
    """Strings before which an answer ends."""

    max_new_tokens: int = option(32, minimum=1)
    """Maximum number of tokens of an answer."""

    scores: tuple[TextScore, ...] = ("exact_match", "f1")
    """Metrics of the answers, as in `evaluation.text_scores`. For `kind: squad` they
    are SQuAD's exact match and F1.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        template_fields("target", self.target)
        if not self.scores:
            raise ConfigError("scores=[]: name at least one")
        if "" in self.stop:
            raise ConfigError("stop: the empty string would end every answer")


@dataclass(frozen=True, kw_only=True)
class PerplexityTaskConfig:
    """Perplexity of whole texts, read in overlapping windows."""

    kind: Literal["perplexity"] = "perplexity"
    name: str = option(doc=_NAME)
    source: SingleSource
    """The texts."""

    window: int | None = option(None, minimum=2)
    """Tokens that the model reads at once. Left out: model.max_sequence_length."""

    stride: int | None = option(None, minimum=1)
    """Tokens that each window predicts, at most `window`; the smaller, the more text
    before each token, and the more windows. Left out: `window`.
    """

    detokenize: Literal["wikitext"] | None = None
    """A corpus whose tokenization is undone before the model reads the texts; words and
    bytes are still counted as they stand in the file. Published perplexities of
    WikiText are of such texts.
    """

    def __post_init__(self) -> None:
        check_options(self)
        if self.stride and self.window and self.stride > self.window:
            raise ConfigError(
                f"stride={self.stride} is more than window={self.window}: tokens "
                "between the windows would be left out"
            )


PromptedTask = ChoiceTaskConfig | GenerationTaskConfig
Task = PromptedTask | PerplexityTaskConfig


@dataclass(frozen=True, kw_only=True)
class TaskFileConfig:
    """Tasks for a language model, and the number of shots."""

    name: str
    """Name of the folder with the results."""

    shots: tuple[int, ...] = (0,)
    """Numbers of shots: each task is done with each of them."""

    seed: int = option(0, minimum=0)
    """Seed of the shots. A question's shots depend on the seed and the question alone,
    not on the other questions.
    """

    limit: int | None = option(None, minimum=1)
    """Maximum number of questions or texts of each task, from the first."""

    tasks: tuple[Task, ...]
    """The tasks."""

    def __post_init__(self) -> None:
        check_options(self)
        check_shots(self.shots)
        if not FOLDER_NAME.fullmatch(self.name):
            raise ConfigError(
                f"name={self.name!r}: expected letters, digits, '.', '_' and '-': it "
                "is a folder's name"
            )
        if not self.tasks:
            raise ConfigError("tasks: expected at least one, found none")
        counts = Counter(task.name for task in self.tasks)
        if doubled := [name for name, count in counts.items() if count > 1]:
            raise ConfigError(f"tasks: the name {doubled[0]!r} occurs twice")


def check_shots(shots: tuple[int, ...] | None) -> None:
    """Checks a list of numbers of shots.

    Raises:
        ConfigError: The list is empty, or a number is below 0 or occurs twice.
    """
    if shots is None:
        return
    if not shots or min(shots) < 0 or len(set(shots)) < len(shots):
        raise ConfigError(
            f"shots={list(shots)}: expected different numbers from 0, such as [0, 4]"
        )
