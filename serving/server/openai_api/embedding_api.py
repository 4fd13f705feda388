"""Requests to `embeddings`."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.base.worker_thread import run_in_thread
from transbeam.serving.server.openai_api.openai_errors import (
    TOO_LONG,
    OpenAIRequestError,
    bad_field,
    unsupported,
)
from transbeam.serving.server.openai_api.replies import Json, token_usage
from transbeam.serving.server.openai_api.request_fields import (
    RequestFields,
    read_prompts,
)
from transbeam.serving.server.openai_api.served_text import ServedText, ServedTexts
from transbeam.serving.server.protocol.json_text import parse_object, text_bytes
from transbeam.serving.server.request_handling.service import HeldVersion, Service

_EMBED, _TOKENIZE, _TEXT = "embed", "tokenize", "text"
_FORMATS = ("float", "base64")
_MANY_NUMBERS = 2**14  # which would block the event loop


@dataclass(frozen=True)
class EmbeddingRequest:
    """A request to `embeddings`.

    Attributes:
        model: The model's name.
        inputs: A string or token ids for each text.
        is_base64: Whether vectors are sent as base64 of little-endian float32 numbers.
        dimensions: The requested width; None for that of the model.
    """

    model: str
    inputs: Sequence[str | list[int]]
    is_base64: bool
    dimensions: int | None

    @classmethod
    def from_json(cls, body: bytes) -> "EmbeddingRequest":
        """Reads the body of a request; unknown fields are ignored.

        Raises:
            StatusError: The body is not JSON, or a field is missing or invalid.

        Example:
        >>> EmbeddingRequest.from_json(b'{"model": "m", "input": "a"}').inputs
        ['a']
        """
        fields = RequestFields(parse_object(body))
        encoding = fields.value("encoding_format") or "float"
        if encoding not in _FORMATS:
            raise bad_field("encoding_format", f"one of {', '.join(_FORMATS)}")
        return cls(
            fields.text("model"),
            read_prompts(fields.value("input"), "input"),
            encoding == "base64",
            fields.integer("dimensions", 1),
        )


async def embed(
    service: Service,
    held: HeldVersion,
    kept: ServedTexts,
    request: EmbeddingRequest,
    deadline: Deadline,
) -> Json:
    """Computes embeddings.

    Args:
        service: Runs the signatures.
        held: The version.
        kept: The conversions between texts and token ids of all versions.
        request: The request.
        deadline: The deadline of the request.

    Returns:
        The reply.

    Raises:
        StatusError: The model computes no embeddings, a text is longer than it reads,
            or token ids are not those of a text.
    """
    if _EMBED not in held.loaded.signatures:
        raise OpenAIRequestError(
            f"the model {held.target.name!r} has no signature {_EMBED!r}; its "
            f"signatures are {', '.join(held.loaded.signatures)}",
            param="model",
        )

    async def run(signature: str, texts: list[bytes]) -> Mapping[str, np.ndarray]:
        inputs = {_TEXT: np.array(texts, object)}
        found = await service.predict_held(
            held, signature, inputs, (), deadline, is_recorded=signature == _EMBED
        )
        return found.outputs

    served = await asyncio.to_thread(kept.find, held)
    texts = [
        text_bytes(each)
        if isinstance(each, str)
        else await run_in_thread(True, lambda each=each: _text_of(each, served))
        for each in request.inputs
    ]
    read = await run(_TOKENIZE, texts)
    _check_tokens(request, read, served)
    vectors = (await run(_EMBED, texts))["embedding"].astype("<f4")
    if request.dimensions not in (None, vectors.shape[1]):
        raise unsupported(
            "dimensions", f"the vectors of this model have {vectors.shape[1]} numbers"
        )
    data = await run_in_thread(
        vectors.size > _MANY_NUMBERS,
        lambda: [_encoded(row, request.is_base64) for row in vectors],
    )
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": each}
            for index, each in enumerate(data)
        ],
        "model": request.model,
        "usage": token_usage(int(read["length"].sum())),
    }


def _text_of(ids: list[int], served: ServedText) -> bytes:
    tokens = served.required_tokens("input")
    tokens.check([ids], "input")
    return tokens.text(ids)


def _check_tokens(
    request: EmbeddingRequest, read: Mapping[str, np.ndarray], served: ServedText
) -> None:
    """Rejects texts that were cut, and token ids that no text has."""
    for row, given in enumerate(request.inputs):
        if "truncated" in read and read["truncated"][row]:
            raise OpenAIRequestError(
                f"input {row} is longer than the model reads",
                param="input",
                error_code=TOO_LONG,
            )
        if isinstance(given, str):
            continue
        ids = read["token_ids"][row, : read["length"][row]].tolist()
        if not served.required_tokens("input").are_tokens_of(given, ids):
            raise bad_field(
                "input",
                "texts, or token ids of the model's own tokenizer; those of input "
                f"{row} are the tokens of no text",
            )


def _encoded(vector: np.ndarray, is_base64: bool) -> Any:
    if is_base64:
        return base64.b64encode(vector.tobytes()).decode()
    return vector.tolist()
