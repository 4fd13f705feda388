"""Conversations to prompts of a served model."""

import re
from collections.abc import Sequence
from typing import Protocol

from transbeam.pipeline.tokenizers.base.chat_template import (
    ChatTemplate,
    ChatTemplateError,
)
from transbeam.pipeline.tokenizers.files.special_tokens import special_tokens
from transbeam.pipeline.tokenizers.files.tokenizer_folder import TokenizerModel
from transbeam.serving.server.openai_api.chat_request import ChatMessage
from transbeam.serving.server.openai_api.openai_errors import OpenAIRequestError

# Names of tokens that no text is tokenized to.
_MARKER = re.compile(r"<[^\s>]+>|\[[^\s\]]+\]")


class ChatRenderer(Protocol):
    """Formats conversations for one model."""

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """Returns the prompt that the model's next message follows.

        The text has no begin token if the model's signatures add it.

        Args:
            messages: The conversation.

        Raises:
            OpenAIRequestError: The model cannot have this conversation.
        """
        ...


class RefusedChat:
    """The renderer of models that have no conversations; see `ChatRenderer`.

    Args:
        reason: The message of the error.
    """

    def __init__(self, reason: str):
        self._reason = reason

    def render(self, messages: Sequence[ChatMessage]) -> str:
        raise OpenAIRequestError(
            f"{self._reason}. Send the text that it is to continue to "
            "/openai/v1/completions",
            param="messages",
            error_code="no_chat_template",
        )


class TemplateRenderer:
    """Renders a chat template; see `ChatRenderer`.

    Messages with markers of the template, such as `<|im_start|>`, are refused: the
    tokenizer would read them as tokens, and the model as turns of the conversation. A
    marker of the template that the tokenizer reads as ordinary text is refused, too,
    unless it is the begin token, without which the model's texts begin.

    Args:
        source: The chat template.
        tokenizer: The tokenizer of the model.

    Raises:
        ChatTemplateError: The template cannot be compiled.
    """

    def __init__(self, source: str, tokenizer: TokenizerModel):
        names = special_tokens(tokenizer)
        self._template = ChatTemplate(source, names)
        whole = tokenizer.framing.found_whole
        # The signatures begin each text with it; see `prompts.beginnings`.
        special, begin = tokenizer.special, names.get("bos_token", "")
        adds_begin = special.begin is not None and special.begin != special.end
        self._added = begin if adds_begin or begin not in whole else ""
        self._markers = [
            piece
            for piece in whole
            if piece.strip() and (piece in source or piece in names.values())
        ]
        written = [
            piece
            for piece in tokenizer.pieces
            if _MARKER.fullmatch(piece) and piece in source
        ]
        self._unread = sorted({*written, *names.values()} - {*whole})

    def render(self, messages: Sequence[ChatMessage]) -> str:
        for index, message in enumerate(messages):
            for marker in self._markers:
                if marker in message.content:
                    where = f"messages[{index}].content"
                    raise OpenAIRequestError(
                        f"{where}: found {marker!r}, which the model reads as a part "
                        "of the chat template and not as text; leave it out",
                        param=where,
                    )
        conversation = [message.as_json() for message in messages]
        try:
            chat = self._template.render(conversation, add_generation_prompt=True)
        except ChatTemplateError as error:
            raise OpenAIRequestError(str(error), param="messages") from None
        text = chat.without_prefix(self._added).text
        for token in self._unread:
            typed = sum(message.content.count(token) for message in messages)
            if text.count(token) > typed:
                raise OpenAIRequestError(
                    f"the chat template writes {token!r}, which the model's tokenizer "
                    "reads as ordinary text",
                    param="messages",
                )
        return text
