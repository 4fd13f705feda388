"""Chat templates: conversations to texts, with the spans of the assistant's turns.

The dialect is that of Hugging Face's chat templates
(https://huggingface.co/docs/transformers/chat_templating): a Jinja template with the
variables `messages` and `add_generation_prompt` and the special tokens by name, in a
sandbox. This module can be imported without TensorFlow.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NamedTuple, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from transbeam.configs.base.errors import UserError

# Errors of expressions in a template, such as `none + "a"`.
_FAULTS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError)
# Their output is collected before it becomes part of the text, so that the place of a
# block in it is not known when it is rendered.
_COLLECTED = (nodes.Macro, nodes.CallBlock, nodes.FilterBlock, nodes.AssignBlock)


class ChatTemplateError(UserError):
    """A chat template that is invalid, or that refuses the messages."""


class RenderedChat(NamedTuple):
    """A conversation as one text.

    Attributes:
        text: The text.
        assistant_spans: Start and end of each `generation` block in the text, in
            characters (code points); empty if the template has no such blocks.
    """

    text: str
    assistant_spans: tuple[tuple[int, int], ...] = ()

    def without_prefix(self, prefix: str) -> "RenderedChat":
        """Returns the text without a prefix, if it begins with it.

        A tokenizer that adds a begin token to each text would otherwise read two of
        them.

        Example:
        >>> RenderedChat("<s>Hi", ((3, 5),)).without_prefix("<s>")
        RenderedChat(text='Hi', assistant_spans=((0, 2),))
        """
        if not prefix or not self.text.startswith(prefix):
            return self
        cut = len(prefix)
        spans = ((max(0, a - cut), max(0, b - cut)) for a, b in self.assistant_spans)
        return RenderedChat(self.text[cut:], tuple(spans))


class ChatTemplate:
    r"""A compiled chat template; may be rendered from several threads.

    Beside Jinja's own, templates have the filter `tojson` (no HTML escapes), the
    functions `raise_exception(message)` and `strftime_now(format)`, `break` and
    `continue`, and the tag `generation`, whose content is what the assistant wrote.

    Args:
        source: The template.
        special_tokens: Special tokens by name, such as `bos_token`.

    Raises:
        ChatTemplateError: The template cannot be compiled, or a `generation` block is
            inside a macro, a `call`, `filter` or `set` block, or a recursive loop,
            where its place in the text cannot be determined.

    Example:
    >>> template = ChatTemplate(
    ...     "{% for message in messages %}"
    ...     "{% if message.role == 'user' %}Q: {{ message.content }}\n"
    ...     "{% else %}A: {% generation %}{{ message.content }}{{ eos_token }}"
    ...     "{% endgeneration %}{% endif %}"
    ...     "{% endfor %}{% if add_generation_prompt %}A: {% endif %}",
    ...     {"eos_token": "</s>"},
    ... )
    >>> question = {"role": "user", "content": "1+1?"}
    >>> template.render([question], add_generation_prompt=True).text
    'Q: 1+1?\nA: '
    >>> template.render([question, {"role": "assistant", "content": "2"}])
    RenderedChat(text='Q: 1+1?\nA: 2</s>', assistant_spans=((11, 16),))
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]):
        self._special_tokens = dict(special_tokens)
        environment = _environment()
        try:
            _check_blocks(environment.parse(source))
            self._template: Template = environment.from_string(source)
        except TemplateError as error:
            raise ChatTemplateError(
                f"the chat template cannot be compiled: {_described(error)}"
            ) from None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = False,
        now: datetime | None = None,
        **variables: Any,
    ) -> RenderedChat:
        """Renders a conversation.

        Args:
            messages: The messages, each with `role` and `content`.
            add_generation_prompt: Whether the text ends with the beginning of a turn of
                the assistant, for generation.
            now: The time of `strftime_now`; the current time by default.
            variables: Further variables of the template, which override the special
                tokens.

        Raises:
            ChatTemplateError: The template refuses the messages by `raise_exception`,
                violates the sandbox, or fails.
        """
        context = self._template.new_context(
            {
                **self._special_tokens,
                "strftime_now": (now or datetime.now()).strftime,
                **variables,
                "messages": [dict(message) for message in messages],
                "add_generation_prompt": add_generation_prompt,
            }
        )
        try:
            with _tracked() as progress:
                for part in self._template.root_render_func(context):
                    progress.add(part)
        except TemplateError as error:
            raise ChatTemplateError(
                f"the chat template refuses the messages: {_described(error)}"
            ) from None
        except (*_FAULTS, RecursionError) as error:
            raise ChatTemplateError(
                f"the chat template fails: {type(error).__name__}: {error}"
            ) from None
        return RenderedChat("".join(progress.parts), tuple(progress.spans))


class _Progress:
    """The text rendered so far, and the `generation` blocks in it."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.spans: list[tuple[int, int]] = []
        self._length = 0

    def add(self, part: str) -> None:
        self.parts.append(part)
        self._length += len(part)

    def add_block(self, text: str) -> None:
        """Records that a block's text follows what was rendered so far."""
        self.spans.append((self._length, self._length + len(text)))


# Of the rendering in this thread or task.
_PROGRESS: ContextVar[_Progress] = ContextVar("chat_progress")


@contextmanager
def _tracked() -> Iterator[_Progress]:
    token = _PROGRESS.set(_Progress())
    try:
        yield _PROGRESS.get()
    finally:
        _PROGRESS.reset(token)


class _GenerationBlock(Extension):
    """The tag `generation`, which renders its content and records its span."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_record")
        return nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _record(self, caller: Callable[[], str]) -> str:
        text = caller()
        _PROGRESS.get().add_block(text)
        return text


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[LoopControlExtension, _GenerationBlock],
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    return environment


def _check_blocks(tree: nodes.Template) -> None:
    """Rejects `generation` blocks whose place in the text cannot be determined."""
    collected = [
        *tree.find_all(_COLLECTED),
        *(loop for loop in tree.find_all(nodes.For) if loop.recursive),
    ]
    for outer in collected:
        for inner in outer.find_all(nodes.CallBlock):
            if inner is not outer and _is_generation(inner):
                raise TemplateError(
                    f"line {inner.lineno}: expected a generation block at the top "
                    "level or in loops and conditions, found one in a macro, in a "
                    "call, filter, set or generation block, or in a recursive loop"
                )


def _is_generation(block: nodes.CallBlock) -> bool:
    method = block.call.node
    return (
        isinstance(method, nodes.ExtensionAttribute)
        and method.identifier == _GenerationBlock.identifier
    )


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Formats a value as JSON; Jinja's own filter escapes HTML and non-ASCII."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: Any) -> NoReturn:
    raise TemplateError(str(message))


def _described(error: TemplateError) -> str:
    line = getattr(error, "lineno", None)
    return f"line {line}: {error.message}" if line else str(error.message)
