"""Conversations to prompts of a served model."""

import re
from collections.abc import Sequence
from typing import Protocol

from transbeam.pipeline.tokenizers.base.chat_template import ChatTemplateError
from transbeam.pipeline.tokenizers.files.chat_format import ChatFormat
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

    Args:
        chat: The chat format of the model's tokenizer.
    """

    def __init__(self, chat: ChatFormat):
        self._chat = chat

    def render(self, messages: Sequence[ChatMessage]) -> str:
        conversation = [message.as_json() for message in messages]
        if found := self._chat.find_marker(conversation):
            index, marker = found
            where = f"messages[{index}].content"
            raise OpenAIRequestError(
                f"{where}: found {marker!r}, which the model reads as a part of the "
                "chat template and not as text; leave it out",
                param=where,
            )
        try:
            return self._chat.render_prompt(conversation)
        except ChatTemplateError as error:
            raise OpenAIRequestError(str(error), param="messages") from None
