"""Paths of OpenAI's API in the server's OpenAPI document.

Only the fields that are read are described; further fields are allowed, and refused if
they would change the output.
"""

from collections.abc import Sequence
from typing import Any

from transbeam.serving.server.openai_api.chat_request import MOST_TOP_LOGPROBS
from transbeam.serving.server.openai_api.completion_request import MOST_LOGPROBS
from transbeam.serving.server.openai_api.text_request import MOST_CHOICES, MOST_STOPS
from transbeam.serving.server.openapi.responses import (
    JSON,
    Json,
    answered,
    reference,
)
from transbeam.serving.server.openapi.tensor_schemas import Schema

PREFIX = "/openai/v1/"
COMPLETIONS = f"{PREFIX}completions"
CHAT = f"{PREFIX}chat/completions"
EMBEDDINGS = f"{PREFIX}embeddings"
MODELS = f"{PREFIX}models"

_TAG = "OpenAI's API"
_REFUSALS = {
    400: "A field is invalid or not supported, or the model rejects the request",
    401: "The access token is missing or wrong",
    404: "There is no such model, or it is not available yet",
    408: "The body did not arrive in time",
    413: "The request is larger than the server's limit",
    415: "Content-Encoding is neither gzip nor identity",
    429: "Too many requests are waiting; send the request again later",
    500: "The model failed, or the server has a bug: see its log",
    503: "The server is stopping, or the version is being unloaded; send it again",
    504: "There was no response in time",
}
_EVENTS = """\
With `stream`, server-sent events: a chunk for each part of the text, the last one with
`finish_reason`, then `data: [DONE]`. An error of a running stream is `data: {"error":
...}`.
"""
_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_FLAG: Schema = {"type": "boolean"}
_ID: Schema = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}


def _object(properties: Json, required: Sequence[str] = ()) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(items: Schema, most: int | None = None, least: int = 0) -> Schema:
    limit = {} if most is None else {"maxItems": most}
    return {"type": "array", "items": items, "minItems": least, **limit}


def _nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _number(lowest: float, highest: float) -> Schema:
    return _nullable({"type": "number", "minimum": lowest, "maximum": highest})


def _whole(lowest: int, highest: int) -> Schema:
    return _nullable({"type": "integer", "minimum": lowest, "maximum": highest})


_IDS = _list(_ID, least=1)
_PROMPTS: Schema = {
    "description": "A text, texts, token ids, or lists of token ids",
    "anyOf": [_TEXT, _list(_TEXT, least=1), _IDS, _list(_IDS, least=1)],
}
_COMMON: Json = {
    "model": {"description": "A model's name", **_TEXT},
    "max_tokens": _whole(0, 2**31 - 1),
    "max_completion_tokens": _whole(0, 2**31 - 1),
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "top_k": _whole(0, 2**31 - 1),
    "min_p": _number(0, 1),
    "repetition_penalty": _number(0.01, 100),
    "no_repeat_ngram_size": _whole(0, 2**31 - 1),
    "logit_bias": {
        "description": "Added to the logits of tokens by their ids",
        **_nullable({"type": "object", "additionalProperties": {"type": "number"}}),
    },
    "seed": _whole(-(2**63), 2**63 - 1),
    "stop": {
        "description": "Strings that end the text and are not part of it",
        "anyOf": [_TEXT, _list(_TEXT, MOST_STOPS), {"type": "null"}],
    },
    "n": _whole(1, MOST_CHOICES),
    "stream": _nullable(_FLAG),
    "stream_options": _nullable(_object({"include_usage": _nullable(_FLAG)})),
}
_PART = _object({"type": {"const": "text"}, "text": _TEXT}, ["type", "text"])
_MESSAGE = _object(
    {
        "role": {"enum": ["system", "developer", "user", "assistant"]},
        "content": {"anyOf": [_TEXT, _list(_PART)]},
    },
    ["role", "content"],
)
_USAGE = _object(
    {
        "prompt_tokens": _COUNT,
        "completion_tokens": _COUNT,
        "total_tokens": _COUNT,
    },
    ["prompt_tokens", "total_tokens"],
)
_MODEL = _object(
    {"id": _TEXT, "object": {"const": "model"}, "created": _COUNT, "owned_by": _TEXT},
    ["id", "object", "created", "owned_by"],
)
_LOGPROBS = _nullable({"description": "Log-probabilities in nats", "type": "object"})


def _reply(kind: str, choice: Json) -> Schema:
    end: Json = {
        "index": _COUNT,
        "finish_reason": {"enum": ["stop", "length"]},
        "logprobs": _LOGPROBS,
    }
    choices = _list(_object({**choice, **end}, [*choice, *end]))
    head: Json = {"id": _TEXT, "object": {"const": kind}, "created": _COUNT}
    found: Json = {**head, "model": _TEXT, "choices": choices, "usage": _USAGE}
    return _object(found, list(found))


SCHEMAS: dict[str, Schema] = {
    "openai.error": _object(
        {
            "error": _object(
                {
                    "message": _TEXT,
                    "type": _TEXT,
                    "param": _nullable(_TEXT),
                    "code": _nullable(_TEXT),
                },
                ["message", "type", "param", "code"],
            )
        },
        ["error"],
    ),
    "openai.completion.question": _object(
        {
            **_COMMON,
            "prompt": _PROMPTS,
            "echo": _nullable(_FLAG),
            "logprobs": _whole(0, MOST_LOGPROBS),
        },
        ["model", "prompt"],
    ),
    "openai.completion.answer": _reply("text_completion", {"text": _TEXT}),
    "openai.chat.question": _object(
        {
            **_COMMON,
            "messages": _list(_MESSAGE, least=1),
            "logprobs": _nullable(_FLAG),
            "top_logprobs": _whole(0, MOST_TOP_LOGPROBS),
        },
        ["model", "messages"],
    ),
    "openai.chat.answer": _reply(
        "chat.completion",
        {"message": _object({"role": _TEXT, "content": _TEXT}, ["role", "content"])},
    ),
    "openai.embedding.question": _object(
        {
            "model": {"description": "A model's name", **_TEXT},
            "input": _PROMPTS,
            "encoding_format": _nullable({"enum": ["float", "base64"]}),
            "dimensions": _whole(1, 2**31 - 1),
        },
        ["model", "input"],
    ),
    "openai.embedding.answer": _object(
        {
            "object": {"const": "list"},
            "data": _list(
                _object(
                    {
                        "object": {"const": "embedding"},
                        "index": _COUNT,
                        "embedding": {
                            "description": "In base64 little-endian float32 numbers",
                            "anyOf": [_list({"type": "number"}), _TEXT],
                        },
                    },
                    ["object", "index", "embedding"],
                )
            ),
            "model": _TEXT,
            "usage": _USAGE,
        },
        ["object", "data", "model", "usage"],
    ),
    "openai.model": _MODEL,
    "openai.models": _object(
        {
            "object": {"const": "list"},
            "data": _list(reference("schemas", "openai.model")),
        },
        ["object", "data"],
    ),
}


def describe_openai_paths() -> Json:
    """Returns the path items of OpenAI's API."""
    name: Json = {"name": "model", "in": "path", "required": True, "schema": _TEXT}
    return {
        COMPLETIONS: _post("completions", "Continues prompts", "completion", _EVENTS),
        CHAT: _post(
            "chat_completions", "The next message of a conversation", "chat", _EVENTS
        ),
        EMBEDDINGS: _post("embeddings", "Embeddings of texts", "embedding"),
        MODELS: _get("models", "The models that answer", "openai.models"),
        f"{MODELS}/{{model}}": _get("model", "A model", "openai.model", name),
    }


def _post(name: str, summary: str, kind: str, events: str = "") -> Json:
    answer = answered("The reply", reference("schemas", f"openai.{kind}.answer"))
    if events:
        schema: Json = {"type": "string", "description": events}
        answer["content"]["text/event-stream"] = {"schema": schema}
    question = reference("schemas", f"openai.{kind}.question")
    body: Json = {"required": True, "content": {JSON: {"schema": question}}}
    operation = _operation(name, summary, answer, _REFUSALS)
    return {"post": {**operation, "requestBody": body}}


def _get(name: str, summary: str, schema: str, *parameters: Json) -> Json:
    answer = answered("The reply", reference("schemas", schema))
    operation = _operation(name, summary, answer, (401, 404, 503))
    return {"get": {**operation, "parameters": list(parameters)}}


def _operation(name: str, summary: str, answer: Json, codes: Any) -> Json:
    error = reference("schemas", "openai.error")
    refusals = {str(code): answered(_REFUSALS[code], error) for code in codes}
    return {
        "operationId": f"openai_{name}",
        "tags": [_TAG],
        "summary": summary,
        "responses": {"200": answer, **refusals},
    }
