"""Fields that completions and chat completions have in common."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from transbeam.serving.server.base.batched_arrays import Arrays
from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.openai_api.openai_errors import bad_field
from transbeam.serving.server.openai_api.request_fields import RequestFields
from transbeam.serving.server.protocol.generation_inputs import STOP, json_of_object
from transbeam.serving.server.protocol.json_text import text_bytes

MOST_STOPS = 4
MOST_CHOICES = 128
# Seeds of signatures are int32.
_SEEDS = 2**31
# Fields with the name and the meaning of a signature's input, and their ranges.
_NUMBERS = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (0.01, 100.0),
}
_WHOLE = ("top_k", "no_repeat_ngram_size")
# Values that change nothing, of fields that otherwise would change the output.
NEUTRAL: Mapping[str, Sequence[Any]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "use_beam_search": (False,),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "stop_token_ids": ([],),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "structured_outputs": (),
}
NEUTRAL_REASON = "the exported model has no such sampling parameter"


@dataclass(frozen=True)
class TextSampling:
    """Sampling parameters of a request.

    Attributes:
        inputs: Inputs of the signature `generate` by name, with one value each; inputs
            that were left out have the defaults of the export.
        stops: Stop strings.
        seed: The seed; a random one if the client sent none.
    """

    inputs: Mapping[str, Any]
    stops: tuple[bytes, ...]
    seed: int

    @classmethod
    def from_fields(cls, fields: RequestFields) -> "TextSampling":
        """Reads the sampling parameters of a request.

        Raises:
            OpenAIRequestError: A field is invalid, or is not supported.
        """
        fields.refuse(NEUTRAL, NEUTRAL_REASON)
        found: dict[str, Any] = {}
        for name, (lowest, highest) in _NUMBERS.items():
            if (number := fields.number(name, lowest, highest)) is not None:
                found[name] = np.float32(number)
        for name in _WHOLE:
            if (whole := fields.integer(name, 0)) is not None:
                found[name] = np.int32(whole)
        # `max_completion_tokens` is the newer name.
        limits = [
            fields.integer(name, 0) for name in ("max_tokens", "max_completion_tokens")
        ]
        for limit in limits:
            if limit is not None:
                found["max_new_tokens"] = np.int32(limit)
        if (biases := fields.value("logit_bias")) is not None:
            found["logit_bias"] = _biases(biases)
        seed = fields.integer("seed", -(2**63), 2**63 - 1)
        seed = secrets.randbelow(_SEEDS) if seed is None else seed % _SEEDS
        stops = tuple(stop for stop in fields.texts(STOP, MOST_STOPS) if stop)
        return cls(found, stops, seed)

    def columns(self, prompts: int, count: int) -> Arrays:
        """Returns the inputs of `generate` for several prompts, except stop strings.

        Args:
            prompts: The number of prompts, `P`.
            count: The number of texts for each prompt, `N`; each has its own seed.

        Returns:
            Arrays (P·N,); the texts of a prompt are adjacent.

        Example:
        >>> sampling = TextSampling({"top_k": np.int32(3)}, (), 7)
        >>> columns = sampling.columns(2, 2)
        >>> columns["top_k"].tolist(), columns["seed"].tolist()
        ([3, 3, 3, 3], [7, 8, 7, 8])
        """
        seeds = (self.seed + np.arange(count)) % _SEEDS
        repeated = {
            name: np.array([value] * (prompts * count), _dtype(value))
            for name, value in self.inputs.items()
        }
        return {**repeated, "seed": np.tile(seeds, prompts).astype(np.int32)}


@dataclass(frozen=True, kw_only=True)
class TextRequest:
    """A request for completions or chat completions.

    Attributes:
        model: The model's name.
        sampling: The sampling parameters.
        count: The number of texts for each prompt.
        is_streamed: Whether the text is sent while it is generated.
        has_usage: Whether a stream ends with the numbers of tokens.
        num_alternatives: The number of alternatives of each token; None if no
            log-probabilities are requested.
    """

    model: str
    sampling: TextSampling
    count: int
    is_streamed: bool
    has_usage: bool
    num_alternatives: int | None

    def check_stream(self, extra: Mapping[str, bool]) -> None:
        """Refuses a stream with fields that are for whole replies.

        Args:
            extra: By field, whether the request has it.

        Raises:
            OpenAIRequestError: A streamed request has one of the fields.
        """
        if not self.is_streamed:
            return
        given = {
            "n": self.count > 1,
            "logprobs": self.num_alternatives is not None,
            **extra,
        }
        for name, is_given in given.items():
            if is_given:
                raise bad_field(
                    name, "no such value in a request with `stream`; send it without"
                )


def common_fields(fields: RequestFields, num_alternatives: int | None) -> TextRequest:
    """Reads the fields that both kinds of requests have.

    Args:
        fields: The request.
        num_alternatives: See `TextRequest`.

    Raises:
        OpenAIRequestError: A field is missing, invalid, or not supported.
    """
    options = fields.value("stream_options")
    if not isinstance(options, dict | None):
        raise bad_field("stream_options", "an object")
    return TextRequest(
        model=fields.text("model"),
        sampling=TextSampling.from_fields(fields),
        count=fields.integer("n", 1, MOST_CHOICES) or 1,
        is_streamed=fields.flag("stream"),
        has_usage=RequestFields(options or {}).flag("include_usage"),
        num_alternatives=num_alternatives,
    )


def _biases(value: Any) -> bytes:
    try:
        if not isinstance(value, dict):
            raise bad_field("logit_bias", "an object of token ids and numbers")
        return text_bytes(json_of_object(value))
    except StatusError as failure:
        raise bad_field("logit_bias", 'an object such as {"50256": -100}') from failure


def _dtype(value: Any) -> Any:
    return object if isinstance(value, bytes) else value.dtype
