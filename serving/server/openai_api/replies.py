"""JSON of replies, and of the chunks of streamed replies.

https://platform.openai.com/docs/api-reference. All chunks of a reply share its id and
its time.
"""

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.openai_api.openai_errors import openai_error_body
from transbeam.serving.server.openai_api.token_logprobs import TokenLogprob

Json = dict[str, Any]

DONE = b"data: [DONE]\n\n"


class ReplyFormat(Protocol):
    """JSON of the replies of one path."""

    @property
    def id_prefix(self) -> str:
        """The prefix of ids."""
        ...

    @property
    def names(self) -> tuple[str, str]:
        """The `object` of replies and of chunks."""
        ...

    def whole(self, text: str, logprobs: Sequence[TokenLogprob] | None) -> Json:
        """Returns the fields of a choice with a whole text."""
        ...

    def start(self) -> Json | None:
        """Returns the fields of the first chunk's choice; None for no such chunk."""
        ...

    def part(self, text: str) -> Json:
        """Returns the fields of the choice of a chunk with a part of the text."""
        ...

    def end(self) -> Json:
        """Returns the fields of the choice of the last chunk."""
        ...


class CompletionFormat:
    """JSON of `completions`; see `ReplyFormat`."""

    id_prefix = "cmpl-"
    names = ("text_completion", "text_completion")

    def whole(self, text: str, logprobs: Sequence[TokenLogprob] | None) -> Json:
        found = None if logprobs is None else completion_logprobs(logprobs)
        return {"text": text, "logprobs": found}

    def start(self) -> Json | None:
        return None

    def part(self, text: str) -> Json:
        return {"text": text, "logprobs": None}

    def end(self) -> Json:
        return self.part("")


class ChatCompletionFormat:
    """JSON of `chat/completions`; see `ReplyFormat`."""

    id_prefix = "chatcmpl-"
    names = ("chat.completion", "chat.completion.chunk")

    def whole(self, text: str, logprobs: Sequence[TokenLogprob] | None) -> Json:
        message = {"role": "assistant", "content": text, "refusal": None}
        found = None if logprobs is None else chat_logprobs(logprobs)
        return {"message": message, "logprobs": found}

    def start(self) -> Json | None:
        return {"delta": {"role": "assistant", "content": ""}, "logprobs": None}

    def part(self, text: str) -> Json:
        return {"delta": {"content": text}, "logprobs": None}

    def end(self) -> Json:
        return {"delta": {}, "logprobs": None}


@dataclass(frozen=True)
class Reply:
    """The reply to a request, or its chunks.

    Attributes:
        format: The path's JSON.
        model: The model's name.
        has_usage: Whether a stream ends with the numbers of tokens.
        id: The reply's id.
        created: Unix time in seconds.
    """

    format: ReplyFormat
    model: str
    has_usage: bool = False
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, choices: Sequence[Json], usage: Json) -> Json:
        """Returns a reply that is not streamed."""
        numbered = [{"index": index, **each} for index, each in enumerate(choices)]
        return {**self._head(0), "choices": numbered, "usage": usage}

    def chunk(self, fields: Json, finish_reason: str | None = None) -> bytes:
        """Returns the event of a chunk with one choice."""
        choice = {"index": 0, **fields, "finish_reason": finish_reason}
        usage = {"usage": None} if self.has_usage else {}
        return event({**self._head(1), "choices": [choice], **usage})

    def usage_chunk(self, usage: Json) -> bytes:
        """Returns the event of the chunk with the numbers of tokens."""
        return event({**self._head(1), "choices": [], "usage": usage})

    def _head(self, kind: int) -> Json:
        return {
            "id": self.format.id_prefix + self.id,
            "object": self.format.names[kind],
            "created": self.created,
            "model": self.model,
        }


def finish_reason(finished: bool) -> str:
    """Returns `stop` after an end token or a stop string, `length` otherwise."""
    return "stop" if finished else "length"


def token_usage(prompt: int, completion: int | None = None) -> Json:
    """Returns the numbers of tokens; embeddings have no completion.

    Example:
    >>> token_usage(3, 2)
    {'prompt_tokens': 3, 'completion_tokens': 2, 'total_tokens': 5}
    """
    if completion is None:
        return {"prompt_tokens": prompt, "total_tokens": prompt}
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def event(found: Mapping[str, Any]) -> bytes:
    r"""Formats a JSON object as a server-sent event.

    Example:
    >>> event({"text": "a\nb"})
    b'data: {"text": "a\\nb"}\n\n'
    """
    # JSON without indentation has no line breaks, which would end the data field.
    text = json.dumps(found, ensure_ascii=False)
    return b"data: " + text.encode("utf-8", "replace") + b"\n\n"


def error_events(failure: StatusError) -> bytes:
    """Returns the last events of a stream that fails."""
    return b"data: " + openai_error_body(failure) + b"\n\n" + DONE


def completion_logprobs(tokens: Sequence[TokenLogprob]) -> Json:
    r"""Formats log-probabilities as columns.

    A text that is a part of a character is `bytes:` and its bytes, as in OpenAI's API.
    Offsets are those of the tokens in the reply's text, in characters.

    Example:
    >>> tokens = [TokenLogprob(b"a", None), TokenLogprob(b"\xe6", -1.0, [(b"b", -0.5)])]
    >>> found = completion_logprobs(tokens)
    >>> found["tokens"], found["token_logprobs"], found["text_offset"]
    (['a', 'bytes:\\xe6'], [None, -1.0], [0, 1])
    >>> found["top_logprobs"]
    [None, {'b': -0.5, 'bytes:\\xe6': -1.0}]
    """
    offsets, before = [], b""
    for token in tokens:
        offsets.append(len(before.decode("utf-8", "ignore")))
        before += token.text
    return {
        "tokens": [_readable(token.text) for token in tokens],
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": [_top(token) for token in tokens],
        "text_offset": offsets,
    }


def chat_logprobs(tokens: Sequence[TokenLogprob]) -> Json:
    """Formats log-probabilities as a list of tokens.

    Example:
    >>> found = chat_logprobs([TokenLogprob(b"a", -0.5, [(b"b", -0.25)])])
    >>> found["content"][0]["bytes"], found["content"][0]["top_logprobs"]
    ([97], [{'token': 'b', 'bytes': [98], 'logprob': -0.25}])
    """

    def described(text: bytes, logprob: float | None) -> Json:
        shown = text.decode("utf-8", "replace")
        return {"token": shown, "bytes": list(text), "logprob": logprob}

    content = [
        {
            **described(token.text, token.logprob),
            "top_logprobs": [described(*each) for each in token.alternatives],
        }
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def _top(token: TokenLogprob) -> Json | None:
    if token.logprob is None or not token.alternatives:
        return None
    found: Json = {}
    # Of tokens with one text, the most probable counts.
    for text, logprob in (*token.alternatives, (token.text, token.logprob)):
        found.setdefault(_readable(text), logprob)
    return found


def _readable(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in text)
