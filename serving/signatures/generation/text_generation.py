"""Decoding loops of generative models: requests, stop conditions and detokenization."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import tensorflow as tf

from transbeam.configs.schema.evaluation import EvaluationConfig
from transbeam.configs.schema.generation import (
    BeamConfig,
    ContrastiveConfig,
    GenerationConfig,
)
from transbeam.model.generation.beam import Searches, search
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.generation.generate import generate
from transbeam.model.generation.request_batch import write_requests
from transbeam.model.generation.token_buffer import TokenBuffer
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    concatenate_ragged,
    split_rows,
    strip_padding,
)
from transbeam.serving.signatures.generation.beam_params import BeamParams
from transbeam.serving.signatures.generation.sampling_params import SamplingParams
from transbeam.serving.text_ops.prompts import as_utf8, without_special, written_text
from transbeam.serving.text_ops.stop_strings import StopStrings

# Preceding tokens that affect how new ones are detokenized; UTF-8 has up to four bytes.
_CONTEXT = 4
# Bytes that a token may add or change besides its own: the space before a word, and
# the replacement of an incomplete character.
_BESIDE = 16


class PromptRows(Protocol):
    """The attributes that a batch of prompts must have."""

    @property
    def token_ids(self) -> tf.Tensor:
        """int32 (B, P), padded on the left."""
        ...

    @property
    def padding_mask(self) -> tf.Tensor:
        """int32 (B, P), 0 for padding."""
        ...

    @property
    def tokens(self) -> tf.RaggedTensor:
        """int32 (B, None), the preceding tokens for detokenizing the new ones."""
        ...


class GeneratedTexts(NamedTuple):
    """Generated texts.

    Attributes:
        generated_text: string (B,), UTF-8; continues the prompt when appended to it.
        token_ids: int32 (B, N), including the end token, then padding.
        length: int32 (B,).
        finished: bool (B,), whether generation ended at an end token or a stop string.
    """

    generated_text: tf.Tensor
    token_ids: tf.Tensor
    length: tf.Tensor
    finished: tf.Tensor

    def ids(self) -> dict[str, tf.Tensor]:
        """Returns the outputs without the text, for signatures that take ids."""
        found = self._asdict()
        del found["generated_text"]
        return found


class TextGenerator:
    """Generates text, with the whole decoding loop and its cache in the graph.

    Args:
        tokenizer: The run's tokenizer.
        evaluation: The `evaluation` section of the run; `write` uses its decoding
            method.
        max_new_tokens: The default number of new tokens, for clients that set none.
        seed: The sampling seed of `write`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        evaluation: EvaluationConfig,
        max_new_tokens: int,
        seed: int,
    ):
        self.tokenizer = tokenizer
        self.seed = seed
        self.stop_ids = tokenizer.special.ends
        self.pad = tokenizer.special.pad
        self.config = GenerationConfig(
            method=evaluation.method,
            max_new_tokens=max_new_tokens,
            stop_token_ids=self.stop_ids,
            pad_token_id=self.pad,
        )

    @property
    def keeps_hidden(self) -> bool:
        """True if the method of `write` needs hidden states of the decode functions."""
        return isinstance(self.config.method, ContrastiveConfig)

    def write(
        self, steps: DecodeFunctions, prompts: PromptRows, most: tf.Tensor
    ) -> GeneratedTexts:
        """Generates texts with the method of the run's `evaluation`.

        Args:
            steps: The model's decode functions.
            prompts: The prompts.
            most: int32 (B,), the maximum number of new tokens of each text.
        """
        method = self.config.method
        if isinstance(method, BeamConfig):
            beams = tf.fill(tf.shape(most), method.num_beams)
            penalty = tf.fill(tf.shape(most), method.length_penalty)
            wanted = BeamParams(Searches(most, beams, penalty))
            return self.search(steps, prompts, wanted, method.early_stopping)[0]
        batch = tf.shape(prompts.token_ids)[0]
        found = generate(
            steps,
            prompts.token_ids,
            prompts.padding_mask,
            config=self.config,
            seeds=tf.fill([batch], self.seed),
        )
        ids, lengths = found["token_ids"], found["lengths"]
        if len(ids.shape) == 3:  # several of each, the best first
            ids, lengths = ids[:, 0], lengths[:, 0]
        # All rows are generated to one length; no token depends on later ones.
        lengths = tf.minimum(lengths, most)
        ids = tf.where(tf.sequence_mask(lengths, tf.shape(ids)[1]), ids, self.pad)
        return self._outputs(prompts, ids, lengths, self._ended(ids, lengths), None)

    def write_requests(
        self, steps: DecodeFunctions, prompts: PromptRows, params: SamplingParams
    ) -> GeneratedTexts:
        """Generates texts with the sampling parameters of each request."""
        found = write_requests(
            steps,
            prompts.token_ids,
            prompts.padding_mask,
            params.requests,
            room=params.room,
            stop_token_ids=self.stop_ids,
            pad_token_id=self.pad,
            ends=self._ends(prompts, params.stops),
        )
        return self._outputs(prompts, *found, params.stops)

    def search(
        self,
        steps: DecodeFunctions,
        prompts: PromptRows,
        wanted: BeamParams,
        early_stopping: bool = BeamConfig().early_stopping,
    ) -> tuple[GeneratedTexts, tf.Tensor]:
        """Runs a beam search; returns the best texts and their scores, float32 (B,)."""
        found = search(
            steps.begin() if steps.begin else steps,
            (prompts.token_ids, prompts.padding_mask),
            wanted.searches,
            self.config,
            room=wanted.room,
            width=wanted.width,
            early_stopping=early_stopping,
        )
        ids, lengths, scores = (part[:, 0] for part in found.first(1, self.pad))
        ended = self._ended(ids, lengths)
        return self._outputs(prompts, ids, lengths, ended, None), scores

    def _ended(self, ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Returns whether each row ends with an end token: bool (B,)."""
        last = tf.gather(ids, tf.maximum(lengths - 1, 0), axis=1, batch_dims=1)
        ended = tf.reduce_any(last[:, None] == [*self.stop_ids, -1], axis=1)
        return ended & (lengths > 0)

    def _ends(
        self, prompts: PromptRows, stops: StopStrings
    ) -> Callable[[TokenBuffer], tf.Tensor]:
        """Returns a function that checks whether a token completed a stop string."""
        longest = stops.longest

        def look(history: TokenBuffer) -> tf.Tensor:
            # A token has at least one byte: no stop string that ends in the last token
            # begins before these.
            first = tf.maximum(history.num_new - longest - 1, 0)
            start = history.prompt_length + first
            new = history.token_ids[:, start : history.length]
            lengths = tf.fill(tf.shape(new)[:1], history.length - start)
            text = self.text(prompts.tokens, strip_padding(new, lengths))
            place = stops.find(text, self._before_last(text, new[:, -1]))
            return place < tf.strings.length(text)

        def ends(history: TokenBuffer) -> tf.Tensor:
            nothing = tf.zeros(tf.shape(history.token_ids)[:1], tf.bool)
            ended = tf.cond(longest > 0, lambda: look(history), lambda: nothing)
            # `tf.cond` drops even the rank if its branches' static shapes differ.
            ended.set_shape(nothing.shape)
            return ended

        return ends

    def _before_last(self, text: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
        """Counts the leading bytes of each text that its last token left unchanged.

        Only stop strings that end after these leading bytes still have to be searched
        for.
        """
        pieces = written_text(split_rows(last, tf.ones_like(last)), self.tokenizer)
        alone = tf.strings.length(self.tokenizer.detokenize(pieces))
        return tf.strings.length(text) - alone - _BESIDE

    def text(self, before: tf.RaggedTensor, new: tf.RaggedTensor) -> tf.Tensor:
        """Detokenizes new tokens that follow preceding tokens: string (B,).

        A token may have other bytes at the beginning of a text than inside it, so new
        tokens are detokenized together with the last tokens before them.
        """
        before = without_special(before, self.tokenizer)[:, -_CONTEXT:]
        new = written_text(new, self.tokenizer)
        whole = self.tokenizer.detokenize(concatenate_ragged(before, new))
        beginning = tf.strings.length(self.tokenizer.detokenize(before))
        # The replacement of an incomplete character may have had more bytes.
        beginning = tf.minimum(beginning, tf.strings.length(whole))
        rest = tf.strings.length(whole) - beginning
        return tf.strings.substr(whole, beginning, rest)

    def _outputs(
        self,
        prompts: PromptRows,
        ids: tf.Tensor,
        lengths: tf.Tensor,
        finished: tf.Tensor,
        stops: StopStrings | None,
    ) -> GeneratedTexts:
        text = self.text(prompts.tokens, strip_padding(ids, lengths))
        if stops is not None:
            last = tf.gather(ids, tf.maximum(lengths - 1, 0), axis=1, batch_dims=1)
            place = stops.find(text, self._before_last(text, last))
            text = tf.strings.substr(text, tf.zeros_like(place), place)
        return GeneratedTexts(as_utf8(text), ids, lengths, finished)
