"""Bodies of requests to `chat/completions`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transbeam.serving.server.openai_api.openai_errors import bad_field, unsupported
from transbeam.serving.server.openai_api.request_fields import RequestFields
from transbeam.serving.server.openai_api.text_request import TextRequest, common_fields
from transbeam.serving.server.protocol.json_text import parse_object

MOST_TOP_LOGPROBS = 20
_ROLES = {
    "system": "system",
    "developer": "system",  # the newer name
    "user": "user",
    "assistant": "assistant",
}
NEUTRAL: Mapping[str, Sequence[Any]] = {
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "documents": ([],),
    "continue_final_message": (False,),
    "add_generation_prompt": (True,),
    "echo": (False,),
    "best_of": (1,),
}
NEUTRAL_REASON = (
    "a reply is the text that the model generates after the chat template's prompt"
)


@dataclass(frozen=True)
class ChatMessage:
    """A message of a conversation.

    Attributes:
        role: `system`, `user` or `assistant`.
        content: The text.
    """

    role: str
    content: str

    def as_json(self) -> dict[str, str]:
        """Returns the message as chat templates expect it."""
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True)
class ChatRequest:
    """A request to `chat/completions`.

    Attributes:
        text: The fields that completions have, too.
        messages: The messages.
    """

    text: TextRequest
    messages: Sequence[ChatMessage]

    @classmethod
    def from_json(cls, body: bytes) -> "ChatRequest":
        """Reads the body of a request; unknown fields are ignored.

        Raises:
            StatusError: The body is not JSON, or a field is missing, invalid, or not
                supported.

        Example:
        >>> message = b'{"role": "developer", "content": "a"}'
        >>> body = b'{"model": "m", "messages": [' + message + b"]}"
        >>> ChatRequest.from_json(body).messages
        [ChatMessage(role='system', content='a')]
        """
        fields = RequestFields(parse_object(body))
        fields.refuse(NEUTRAL, NEUTRAL_REASON)
        alternatives = fields.integer("top_logprobs", 0, MOST_TOP_LOGPROBS)
        wants_logprobs = fields.flag("logprobs")
        if alternatives and not wants_logprobs:
            raise bad_field("top_logprobs", "`logprobs`: true beside it")
        text = common_fields(fields, alternatives or 0 if wants_logprobs else None)
        text.check_stream({})
        messages = fields.value("messages")
        if not isinstance(messages, list) or not messages:
            raise bad_field("messages", "a list of at least one message")
        return cls(text, [_message(each, i) for i, each in enumerate(messages)])


def _message(value: Any, index: int) -> ChatMessage:
    where = f"messages[{index}]"
    if not isinstance(value, dict):
        raise bad_field(where, "an object with role and content")
    if value.get("role") in ("tool", "function"):
        raise unsupported(f"{where}.role", "the model calls no tools")
    role = _ROLES.get(str(value.get("role")))
    if role is None:
        raise bad_field(f"{where}.role", f"one of {', '.join(_ROLES)}")
    for name in ("tool_calls", "function_call", "audio", "refusal"):
        if value.get(name):
            raise unsupported(f"{where}.{name}", "messages have text alone")
    return ChatMessage(role, _content(value.get("content"), f"{where}.content"))


def _content(value: Any, where: str) -> str:
    r"""Returns the text of a message, whose parts are joined with line breaks.

    Example:
    >>> _content([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "")
    'a\nb'
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise bad_field(where, "a text, or a list of parts")
    texts = []
    for index, part in enumerate(value):
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": str(kind)} if kind != "text":
                raise unsupported(f"{where}[{index}]", f"{kind} parts cannot be read")
            case _:
                raise bad_field(f"{where}[{index}]", '{"type": "text", "text": "..."}')
    return "\n".join(texts)
