"""Bodies of requests to `completions`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transbeam.serving.server.openai_api.openai_errors import unsupported
from transbeam.serving.server.openai_api.request_fields import (
    RequestFields,
    read_prompts,
)
from transbeam.serving.server.openai_api.text_request import TextRequest, common_fields
from transbeam.serving.server.protocol.json_text import parse_object

MOST_LOGPROBS = 5
NEUTRAL: Mapping[str, Sequence[Any]] = {
    "suffix": ("",),
    "prompt_embeds": (),
    "prompt_logprobs": (),
    "response_format": ({"type": "text"},),
}
NEUTRAL_REASON = "a completion follows its prompt, and has the form that it has"


@dataclass(frozen=True)
class CompletionRequest:
    """A request to `completions`.

    Attributes:
        text: The fields that chat completions have, too.
        prompts: A string or token ids for each prompt.
        echo: Whether the replies begin with the prompts.
    """

    text: TextRequest
    prompts: Sequence[str | list[int]]
    echo: bool

    @classmethod
    def from_json(cls, body: bytes) -> "CompletionRequest":
        """Reads the body of a request; unknown fields are ignored.

        Raises:
            StatusError: The body is not JSON, or a field is missing, invalid, or not
                supported.

        Example:
        >>> body = b'{"model": "writer", "prompt": "The", "max_tokens": 5, "user": "a"}'
        >>> request = CompletionRequest.from_json(body)
        >>> request.text.model, request.prompts, request.text.sampling.inputs
        ('writer', ['The'], {'max_new_tokens': np.int32(5)})
        """
        fields = RequestFields(parse_object(body))
        fields.refuse(NEUTRAL, NEUTRAL_REASON)
        text = common_fields(fields, fields.integer("logprobs", 0, MOST_LOGPROBS))
        if fields.value("best_of") not in (None, text.count):
            raise unsupported("best_of", "all generated texts are returned; use n")
        prompts = read_prompts(fields.value("prompt"), "prompt")
        found = cls(text, prompts, fields.flag("echo"))
        text.check_stream({"prompt": len(prompts) > 1, "echo": found.echo})
        return found
