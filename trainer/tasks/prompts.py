"""The texts that a model reads before an answer: description, shots, question."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from transbeam.configs.schema.task_file import PromptedTask
from transbeam.trainer.tasks.questions import Question


class PromptFormat(Protocol):
    """The form in which a model reads shots and questions."""

    def context(self, shots: Sequence[Question], question: Question) -> str:
        """Returns the text before the answer, without white space at its end."""
        ...

    def answer(self, text: str) -> str:
        """Returns an answer with the text that separates it from the context."""
        ...

    def problem(self, question: Question) -> str | None:
        """Returns the reason why a question cannot be asked, or None."""
        ...


@dataclass(frozen=True)
class TextPrompts:
    r"""Prompts as running text, for models that go on with a text.

    Example:
    >>> from transbeam.configs.schema.sources import TextSourceConfig
    >>> from transbeam.configs.schema.task_file import GenerationTaskConfig
    >>> source = TextSourceConfig(path="a.txt")
    >>> task = GenerationTaskConfig(name="sums", source=source, prompt="{text}=")
    >>> prompts = TextPrompts(task)
    >>> prompts.context(
    ...     [Question("a", 0, "1+1=", ("2",))], Question("a", 4, "2+3=", ("5",))
    ... )
    '1+1= 2\n\n2+3='
    >>> prompts.answer("5")
    ' 5'
    """

    task: PromptedTask

    def context(self, shots: Sequence[Question], question: Question) -> str:
        task = self.task
        parts = [task.description] if task.description else []
        parts += [shot.prompt + self.answer(shot.solution) for shot in shots]
        return task.shot_separator.join([*parts, question.prompt])

    def answer(self, text: str) -> str:
        return self.task.separator + text

    def problem(self, question: Question) -> str | None:
        return None


@dataclass(frozen=True)
class ChatPrompts:
    """Prompts as turns of a conversation, for models trained with `dialogue`.

    The description is the system's message. A shot is a user's turn and the
    assistant's answer to it.

    Attributes:
        task: The task.
        chat_format: The `ChatFormat` of the run's tokenizer.
    """

    task: PromptedTask
    chat_format: Any

    def context(self, shots: Sequence[Question], question: Question) -> str:
        messages = []
        if self.task.description:
            messages.append({"role": "system", "content": self.task.description})
        for shot in shots:
            messages.append({"role": "user", "content": shot.prompt})
            messages.append({"role": "assistant", "content": shot.solution})
        messages.append({"role": "user", "content": question.prompt})
        return str(self.chat_format.render_prompt(messages))

    def answer(self, text: str) -> str:
        return str(self.chat_format.answer_frame()[0]) + text

    def problem(self, question: Question) -> str | None:
        texts = [{"content": text} for text in (question.prompt, *question.answers)]
        found = self.chat_format.find_marker(texts)
        return f"the chat template's {found[1]!r} in a text" if found else None
