"""Conversations as the texts that a tokenizer reads."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from transbeam.configs.base.errors import ConfigError
from transbeam.pipeline.tokenizers.base.chat_template import (
    ChatTemplate,
    ChatTemplateError,
    RenderedChat,
)
from transbeam.pipeline.tokenizers.files.special_tokens import special_tokens
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel

Message = Mapping[str, str]

NO_CHAT_TEMPLATE = (
    "objective.kind=dialogue needs a chat template, and the tokenizer has none. Name "
    "one: objective.chat_template=plain, chatml, or Jinja"
)

_PROBE = "Transbeam"

# The usual forms of special tokens, such as <|im_start|>, </s> and [INST].
_MARKER = re.compile(r"<[^\s>]+>|\[[^\s\]]+\]")
# Those that cannot be Jinja or ordinary text.
_MARKERS = re.compile(r"<\|\w+\|>")


class ChatFormat:
    """The chat template of a tokenizer, with its special tokens.

    Special tokens and other markers of the template are text like any other when a user
    types them, but the tokenizer would read them as tokens, and so as turns of the
    conversation: messages with markers are to be refused. A marker of the template that
    the tokenizer reads as ordinary text is an error, unless it is the begin token,
    without which texts begin that records and signatures give it.

    Args:
        source: The chat template in Jinja.
        model: The vocabulary and the rules of the tokenizer.

    Raises:
        ChatTemplateError: The template cannot be compiled.
    """

    def __init__(self, source: str, model: TokenizerModel):
        names = special_tokens(model)
        self._template = ChatTemplate(source, names)
        whole = model.framing.found_whole
        special, begin = model.special, names.get("bos_token", "")
        adds_begin = special.begin not in (None, special.end)
        self._added = begin if adds_begin or begin not in whole else ""
        self.markers = tuple(
            piece
            for piece in whole
            if piece.strip() and (piece in source or piece in names.values())
        )
        written = {*_written_pieces(source, model), *names.values()}
        self._unread = sorted(written - {*whole})

    def find_marker(self, messages: Sequence[Message]) -> tuple[int, str] | None:
        """Returns the number of the first message with a marker, and the marker."""
        for number, message in enumerate(messages):
            for marker in self.markers:
                if marker in message["content"]:
                    return number, marker
        return None

    def render_prompt(self, messages: Sequence[Message]) -> str:
        """Renders the text after which the assistant's next turn begins.

        Spaces at its end are left out: the tokens of words begin with them.

        Raises:
            ChatTemplateError: The template refuses the messages.
        """
        return self._render(messages, add_generation_prompt=True).text.rstrip(" ")

    def render_turns(self, messages: Sequence[Message]) -> RenderedChat:
        """Renders a conversation with the span of each turn of the assistant.

        The spans are those of the template's `generation` blocks. In a template without
        such blocks, a turn is what follows the prompt for it.

        Returns:
            The text up to the end of the assistant's last turn. Each span includes the
            spaces before it.

        Raises:
            ChatTemplateError: The template refuses the messages, or the prompt for a
                turn is not the beginning of the conversation with the turn.
        """
        rendered = self._render(messages)
        spans = rendered.assistant_spans or self._spans_of_turns(
            rendered.text, messages
        )
        text = rendered.text[: spans[-1][1]] if spans else rendered.text
        return RenderedChat(
            text, tuple((len(text[:a].rstrip(" ")), b) for a, b in spans)
        )

    def answer_frame(self) -> tuple[str, str]:
        """Returns the texts before and after the content of an assistant's turn.

        Raises:
            ChatTemplateError: The template changes or refuses a question and an answer.
        """
        messages = [
            {"role": "user", "content": _PROBE.lower()},
            {"role": "assistant", "content": _PROBE},
        ]
        rendered = self.render_turns(messages)
        (turn,) = (rendered.text[a:b] for a, b in rendered.assistant_spans)
        before, found, after = turn.partition(_PROBE)
        if not found:
            raise ChatTemplateError(
                "the chat template does not write the content of an assistant's turn "
                "as it is"
            )
        return before, after

    def _render(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = False
    ) -> RenderedChat:
        chat = self._template.render(
            messages, add_generation_prompt=add_generation_prompt
        ).without_prefix(self._added)
        for token in self._unread:
            typed = sum(message["content"].count(token) for message in messages)
            if chat.text.count(token) > typed:
                raise ChatTemplateError(
                    f"the chat template writes {token!r}, which the tokenizer reads as "
                    "ordinary text"
                )
        return chat

    def _spans_of_turns(
        self, text: str, messages: Sequence[Message]
    ) -> list[tuple[int, int]]:
        spans = []
        for number, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before = self._render(messages[:number], add_generation_prompt=True)
            until = self._render(messages[: number + 1])
            for part in (before.text, until.text):
                if not text.startswith(part):
                    raise ChatTemplateError(
                        "the chat template has no generation block, and the prompt of "
                        "a turn is not the beginning of the conversation. Write the "
                        "assistant's content between {% generation %} and "
                        "{% endgeneration %}"
                    )
            spans.append((len(before.text), len(until.text)))
        return spans


def make_chat_format(model: TokenizerModel) -> ChatFormat | None:
    """Makes the format of a tokenizer's chat template; None if it has none.

    Raises:
        ChatTemplateError: The template cannot be compiled.
    """
    source = model.framing.chat_template
    return None if source is None else ChatFormat(source, model)


def with_chat_template(model: TokenizerModel, source: str) -> TokenizerModel:
    """Returns a tokenizer with a chat template.

    The special tokens that the template writes are matched in texts from then on; else
    a tokenizer would read them letter by letter.

    Raises:
        ConfigError: The template writes markers such as `<|im_start|>` that are no
            pieces of the vocabulary.
    """
    pieces = {*model.pieces}
    missing = [marker for marker in _MARKERS.findall(source) if marker not in pieces]
    if missing:
        raise ConfigError(
            f"objective.chat_template: it writes {missing[0]!r}, which is no piece of "
            "the tokenizer. Take a tokenizer that has it, or another template "
            "(chat_template=plain needs none)"
        )
    named = special_tokens(model)
    written = [piece for name, piece in named.items() if name in source]
    written += _written_pieces(source, model)
    known = {*model.framing.found_whole}
    added = [piece for piece in dict.fromkeys(written) if piece not in known]
    framing = replace(
        model.framing,
        chat_template=source,
        whole_pieces=(*model.framing.whole_pieces, *added),
    )
    return _with_stop(replace(model, framing=framing))


def _written_pieces(source: str, model: TokenizerModel) -> list[str]:
    """Returns the markers of a vocabulary that a template writes."""
    return [
        piece for piece in model.pieces if _MARKER.fullmatch(piece) and piece in source
    ]


def _with_stop(model: TokenizerModel) -> TokenizerModel:
    """Lets the special token that ends the assistant's turns end generated texts."""
    chat = make_chat_format(model)
    assert chat is not None
    _, closing = chat.answer_frame()
    found = [(closing.find(piece), piece) for piece in chat.markers]
    inside = sorted(place for place in found if place[0] >= 0)
    if not inside:
        return model
    stop = model.pieces.index(inside[0][1])
    if stop in model.special.ends:
        return model
    stops = (*model.framing.stop_ids, stop)
    return replace(model, framing=replace(model.framing, stop_ids=stops))
