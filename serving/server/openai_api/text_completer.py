"""Generates texts for completions and chat completions."""

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tensorflow.core.framework import types_pb2

from transbeam.serving.server.base.batched_arrays import Arrays
from transbeam.serving.server.base.deadline import Deadline
from transbeam.serving.server.inference.signature import ServableSignature
from transbeam.serving.server.openai_api.openai_errors import (
    TOO_LONG,
    OpenAIRequestError,
)
from transbeam.serving.server.openai_api.text_request import TextRequest
from transbeam.serving.server.openai_api.token_texts import TokenTexts
from transbeam.serving.server.protocol.generation_inputs import STOP
from transbeam.serving.server.protocol.json_text import text_bytes
from transbeam.serving.server.request_handling.service import HeldVersion, Service
from transbeam.serving.server.streaming.stream_requests import (
    StreamRequest,
    stream_request,
)

TEXT = "text"
_GENERATE, _GENERATE_IDS, _TOKENIZE = "generate", "generate_ids", "tokenize"
# Token ids of all prompts of a request, padded to the longest.
_MOST_IDS = 2**22
# Text inputs of signatures that are parameters.
_PARAMETERS = {STOP, "logit_bias"}


@dataclass(frozen=True)
class PromptTokens:
    """A prompt.

    Attributes:
        text: UTF-8; None if the client sent token ids.
        token_ids: int32 (P,).
    """

    text: bytes | None
    token_ids: np.ndarray


@dataclass(frozen=True)
class CompletedText:
    """A generated text.

    Attributes:
        prompt: The prompt.
        text: The text, which ends before a stop string.
        token_ids: int32 (N,), the generated tokens, with the end token and those of a
            stop string.
        finished: Whether generation ended at an end token or a stop string.
    """

    prompt: PromptTokens
    text: str
    token_ids: np.ndarray
    finished: bool


class TextCompleter:
    """Generates texts with a version.

    Args:
        service: Runs the signatures.
        held: The version.
        deadline: The deadline of the request.

    Raises:
        OpenAIRequestError: The model generates no texts, or has several text inputs.
    """

    def __init__(self, service: Service, held: HeldVersion, deadline: Deadline):
        self._service = service
        self._held = held
        self._deadline = deadline
        signatures, name = held.loaded.signatures, held.target.name
        if not signatures.keys() >= {_GENERATE, _TOKENIZE}:
            raise OpenAIRequestError(
                f"the model {name!r} generates no texts; its signatures are "
                f"{', '.join(signatures)}",
                param="model",
            )
        texts = _text_inputs(signatures[_GENERATE])
        if texts != {TEXT}:
            raise OpenAIRequestError(
                f"the model {name!r} reads {', '.join(sorted(texts))}, and a prompt is "
                f"one text; use /v1/models/{name}:predict",
                param="model",
            )

    async def read_texts(self, texts: Sequence[str]) -> list[PromptTokens]:
        """Tokenizes prompts.

        Raises:
            StatusError: A prompt is longer than the model reads.
        """
        encoded = list(map(text_bytes, texts))
        outputs = await self._run(_TOKENIZE, {TEXT: np.array(encoded, object)})
        _check_whole(outputs)
        return [
            PromptTokens(text, ids[:length].astype(np.int32))
            for text, ids, length in zip(
                encoded, outputs["token_ids"], outputs["length"], strict=True
            )
        ]

    async def complete_texts(
        self, prompts: Sequence[PromptTokens], request: TextRequest
    ) -> list[CompletedText]:
        """Generates `request.count` texts for each prompt, in the order of the prompts.

        Args:
            prompts: Prompts that have texts.
            request: The request.

        Raises:
            StatusError: A parameter is invalid, or no token fits after a prompt.
        """
        repeated = [prompt for prompt in prompts for _ in range(request.count)]
        inputs = {
            **request.sampling.columns(len(prompts), request.count),
            TEXT: np.array([prompt.text for prompt in repeated], object),
        }
        if request.sampling.stops:
            inputs[STOP] = np.array([request.sampling.stops] * len(repeated), object)
        outputs = await self._run(_GENERATE, inputs)
        _check_whole(outputs)
        return [
            CompletedText(
                prompt,
                outputs["generated_text"][row].decode("utf-8", "replace"),
                outputs["token_ids"][row, : outputs["length"][row]],
                bool(outputs["finished"][row]),
            )
            for row, prompt in enumerate(repeated)
        ]

    async def complete_ids(
        self, prompts: Sequence[PromptTokens], request: TextRequest, tokens: TokenTexts
    ) -> list[CompletedText]:
        """Generates texts for prompts of token ids; see `complete_texts`.

        Args:
            prompts: The prompts.
            request: The request.
            tokens: The texts of the version's tokens.
        """
        repeated = [prompt for prompt in prompts for _ in range(request.count)]
        lengths = np.array([len(prompt.token_ids) for prompt in repeated], np.int32)
        _check_size(len(repeated), int(lengths.max()))
        ids = np.zeros((len(repeated), lengths.max()), np.int32)
        for row, prompt in zip(ids, repeated, strict=True):
            row[: len(prompt.token_ids)] = prompt.token_ids
        inputs = {
            **request.sampling.columns(len(prompts), request.count),
            "token_ids": ids,
            "length": lengths,
        }
        outputs = await self._run(_GENERATE_IDS, inputs)

        def texts() -> list[CompletedText]:
            return [
                _cut(
                    prompt,
                    outputs["token_ids"][row, : outputs["length"][row]],
                    bool(outputs["finished"][row]),
                    request.sampling.stops,
                    tokens,
                )
                for row, prompt in enumerate(repeated)
            ]

        return await asyncio.to_thread(texts)

    def stream_request(
        self, prompt: bytes, request: TextRequest, signature: ServableSignature
    ) -> StreamRequest:
        """Returns the request for a stream of one text.

        Args:
            prompt: The prompt.
            request: The request.
            signature: The signature `stream_begin`.

        Raises:
            StatusError: A parameter is invalid.
        """
        given = request.sampling.columns(1, 1)
        stops = np.array(request.sampling.stops, object)
        return stream_request(
            {**given, TEXT: np.array([prompt], object), STOP: stops},
            signature,
        )

    async def _run(self, signature: str, inputs: Arrays) -> dict[str, np.ndarray]:
        predicted = await self._service.predict_held(
            self._held,
            signature,
            inputs,
            (),
            self._deadline,
            is_recorded=signature != _TOKENIZE,
        )
        return predicted.outputs


def _check_size(rows: int, width: int) -> None:
    """Rejects rows of which one is so long that all together take too much memory."""
    if rows * width > _MOST_IDS:
        raise OpenAIRequestError(
            f"prompt: found {rows:,} rows of up to {width:,} token ids; expected at "
            f"most {_MOST_IDS:,} ids with padding. Send them in several requests",
            param="prompt",
            http=413,
        )


def _cut(
    prompt: PromptTokens,
    ids: np.ndarray,
    finished: bool,
    stops: Sequence[bytes],
    tokens: TokenTexts,
) -> CompletedText:
    """Ends a text before its first stop string, as `generate` does.

    The signature `generate_ids` has no stop strings.
    """
    before, listed = prompt.token_ids.tolist(), ids.tolist()
    text = tokens.text(listed, before)

    def stops_within(count: int) -> bool:
        part = tokens.text(listed[:count], before)
        return any(stop in part for stop in stops)

    if any(stop in text for stop in stops):
        # The tokens up to the one that completes a stop string.
        count = bisect_left(range(len(listed) + 1), True, key=stops_within)
        part = tokens.text(listed[:count], before)
        text = part[: min(part.find(stop) for stop in stops if stop in part)]
        ids, finished = ids[:count], True
    return CompletedText(prompt, text.decode("utf-8", "replace"), ids, finished)


def _text_inputs(signature: ServableSignature) -> set[str]:
    return {
        name
        for name, dtype in signature.dtypes.items()
        if dtype == types_pb2.DT_STRING and name not in _PARAMETERS
    }


def _check_whole(outputs: Arrays) -> None:
    if "truncated" in outputs and outputs["truncated"].any():
        row = int(np.flatnonzero(outputs["truncated"])[0])
        raise OpenAIRequestError(
            f"prompt {row} is longer than the model reads",
            param="prompt",
            error_code=TOO_LONG,
        )
