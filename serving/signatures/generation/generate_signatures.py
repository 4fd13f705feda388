"""The generation signatures that all generative models share, on texts or on ids.

The decoding loop with its cache is most of a SavedModel's graph, and a server optimizes
all of it for each signature that it loads. So there is one function for sampling and
one for beam search, each traced once and called by the signatures.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import tensorflow as tf

from transbeam.configs.schema.generation import GreedyConfig
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.kernels.dispatch import is_plain
from transbeam.serving.signatures.base.interface import Endpoint, ids_spec
from transbeam.serving.signatures.generation.beam_params import SEARCH_SPECS, BeamParams
from transbeam.serving.signatures.generation.sampling_params import (
    SPECS,
    STOP,
    SamplingParams,
    after,
    limits,
)
from transbeam.serving.signatures.generation.streaming_signatures import (
    EncodedPrompts,
    StreamingSignatures,
)
from transbeam.serving.signatures.generation.text_generation import (
    GeneratedTexts,
    TextGenerator,
)

_IDS = [ids_spec("token_ids"), ids_spec("length", None)]
_Wanted = TypeVar("_Wanted", SamplingParams, BeamParams)


class Prompt(NamedTuple):
    """Prompts in a batch; see `PromptRows`.

    Attributes:
        token_ids: int32 (B, P), padded on the left.
        padding_mask: int32 (B, P), 0 for padding.
        tokens: int32 (B, None), the tokens that precede the new tokens, needed to
            detokenize the new tokens.
        room: int32 (B,), the number of new tokens that fit after each prompt; 0 or less
            if the prompt is too long.
        source: Further inputs of the model, such as an encoder's ids and their lengths.
    """

    token_ids: tf.Tensor
    padding_mask: tf.Tensor
    tokens: tf.RaggedTensor
    room: tf.Tensor
    source: tuple[tf.Tensor, ...] = ()


class GenerationTask:
    """The signatures `serving_default`, `generate`, `search`, `…_ids` and `stream_…`.

    A subclass defines how texts and ids are read, and the model's decode functions.

    Args:
        writer: The decoding loops, with the default parameters.
        most: The maximum number of new tokens.
    """

    def __init__(self, writer: TextGenerator, most: int):
        self.writer = writer
        self.most = most
        self._traced: dict[tuple[str, bool], Callable[..., Any]] = {}

    @property
    def texts(self) -> list[tf.TensorSpec]:
        """The text inputs, in their order."""
        raise NotImplementedError

    def steps(self, *source: tf.Tensor, keep_hidden: bool = False) -> DecodeFunctions:
        """Returns the decode functions, given the model's inputs other than prompts."""
        raise NotImplementedError

    def from_texts(self, texts: Any) -> tuple[Prompt, tf.Tensor]:
        """Returns the prompts, and whether each text was cut: bool (B,).

        Args:
            texts: Columns (B,), in the order of the property `texts`.
        """
        raise NotImplementedError

    def from_ids(self, token_ids: tf.Tensor, length: tf.Tensor) -> Prompt:
        """Returns the prompts for ids (B, T) and their lengths (B,)."""
        raise NotImplementedError

    def example(self, rows: int, width: int) -> Prompt:
        """Returns `rows` example prompts of `width` tokens; only shapes matter."""
        raise NotImplementedError

    @cached_property
    def streaming(self) -> StreamingSignatures:
        """The signatures that generate one token per call."""

        def prepare(texts: Any, wanted: SamplingParams) -> EncodedPrompts:
            given, truncated = self.from_texts(after(wanted, *texts))
            given, wanted = self._limited(given, wanted)
            steps = self.steps(*given.source)
            return EncodedPrompts(steps, given, truncated, wanted.requests)

        def example(rows: int, width: int) -> EncodedPrompts:
            given = self.example(rows, width)
            truncated = tf.fill([rows], False)
            requests = SamplingParams.none(rows).requests
            return EncodedPrompts(self.steps(*given.source), given, truncated, requests)

        def read(params: Any, texts: tf.Tensor) -> SamplingParams:
            return self._params((*params, tf.fill(tf.shape(texts), "")), texts)

        return StreamingSignatures(self.writer, self.texts, read, prepare, example)

    def writing_endpoints(self) -> dict[str, Endpoint]:
        """Returns the signatures that generate text."""
        texts = self.texts
        return {
            **self.streaming.endpoints(),
            "serving_default": Endpoint(self.answer, texts),
            "generate": Endpoint(self.generate, [*texts, *SPECS, STOP]),
            "generate_ids": Endpoint(self.generate_ids, [*_IDS, *SPECS]),
            "search": Endpoint(self.search, [*texts, *SEARCH_SPECS]),
            "search_ids": Endpoint(self.search_ids, [*_IDS, *SEARCH_SPECS]),
        }

    def answer(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `serving_default`."""
        given, truncated = self.from_texts(texts)
        given, wanted = self._limited(given, SamplingParams.none(tf.size(texts[0])))
        if isinstance(self.writer.config.method, GreedyConfig):
            found = self._written(given, wanted)
        else:
            steps = self.steps(*given.source, keep_hidden=self.writer.keeps_hidden)
            found = self.writer.write(steps, given, wanted.requests.max_new_tokens)
        return {**found._asdict(), "truncated": truncated}

    def generate(self, *inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `generate`."""
        texts, params = inputs[: len(self.texts)], inputs[len(self.texts) :]
        wanted = self._params(params, texts[0])
        given, truncated = self.from_texts(after(wanted, *texts))
        found = self._written(*self._limited(given, wanted))
        return {**found._asdict(), "truncated": truncated}

    def generate_ids(
        self, token_ids: tf.Tensor, length: tf.Tensor, *params: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The signature `generate_ids`."""
        none = tf.fill(tf.shape(length), "")
        wanted = self._params((*params, none), length)
        given = self.from_ids(*after(wanted, token_ids, length))
        return self._written(*self._limited(given, wanted)).ids()

    def search(self, *inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `search`."""
        texts, params = inputs[: len(self.texts)], inputs[len(self.texts) :]
        wanted = BeamParams.from_inputs(params, tf.size(texts[0]))
        given, truncated = self.from_texts(after(wanted, *texts))
        found, score = self._searched(*self._limited(given, wanted))
        return {**found._asdict(), "score": score, "truncated": truncated}

    def search_ids(
        self, token_ids: tf.Tensor, length: tf.Tensor, *params: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The signature `search_ids`."""
        wanted = BeamParams.from_inputs(params, tf.size(length))
        given = self.from_ids(*after(wanted, token_ids, length))
        found, score = self._searched(*self._limited(given, wanted))
        return {**found.ids(), "score": score}

    def _params(self, params: tuple[tf.Tensor, ...], rows: tf.Tensor) -> SamplingParams:
        """Reads the sampling parameters that clients send, for the texts of a batch."""

        def read(params: tuple[tf.Tensor, ...], number: tf.Tensor) -> SamplingParams:
            return SamplingParams.from_inputs(
                params, number, self.writer.tokenizer.vocabulary_size
            )

        return self._once("params", read)(params, tf.size(rows))

    def _limited(self, given: Prompt, wanted: _Wanted) -> tuple[Prompt, _Wanted]:
        """Limits the number of new tokens to what fits after each prompt."""
        number = limits(
            wanted[0].max_new_tokens,
            given.room,
            self.most,
            self.writer.config.max_new_tokens,
        )
        (token_ids,) = after(number, given.token_ids)
        return given._replace(token_ids=token_ids), wanted.at_most(number)

    def _written(self, given: Prompt, wanted: SamplingParams) -> GeneratedTexts:
        def write(given: Prompt, wanted: SamplingParams) -> GeneratedTexts:
            steps = self.steps(*given.source)
            return self.writer.write_requests(steps, given, wanted)

        return self._once("write", write)(given, wanted)

    def _searched(
        self, given: Prompt, wanted: BeamParams
    ) -> tuple[GeneratedTexts, tf.Tensor]:
        def search(
            given: Prompt, wanted: BeamParams
        ) -> tuple[GeneratedTexts, tf.Tensor]:
            return self.writer.search(self.steps(*given.source), given, wanted)

        return self._once("search", search)(given, wanted)

    def _once(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a cached `tf.function`: one for exports, one for all other calls."""
        key = name, is_plain()
        if key not in self._traced:
            self._traced[key] = tf.function(function, autograph=False)
        return self._traced[key]
