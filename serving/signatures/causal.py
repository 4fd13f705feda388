"""The signatures of a causal language model."""

from typing import Any

import tensorflow as tf

from transbeam.configs.loader.compatibility import DEFAULT_NEW_TOKENS
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.generation.keras_decode_functions import decoder_steps
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    append_token,
    strip_padding,
)
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.attention_maps import LONGEST, attention_endpoint
from transbeam.serving.signatures.base.interface import TEXT, Endpoint, ids_spec
from transbeam.serving.signatures.embedding import Embedder
from transbeam.serving.signatures.generation.generate_signatures import (
    GenerationTask,
    Prompt,
)
from transbeam.serving.signatures.generation.log_likelihood import log_likelihood
from transbeam.serving.signatures.generation.text_generation import TextGenerator
from transbeam.serving.signatures.generation.tflite_signatures import (
    decoder_endpoints,
    phone_calls,
)
from transbeam.serving.text_ops.prompts import EncodedPrompt, beginnings
from transbeam.serving.text_ops.text_encoder import right_padded

_Ragged: Any = tf.RaggedTensor
_INPUTS = ("token_ids", "padding_mask")
_IDS = [ids_spec("token_ids"), ids_spec("length", None)]


class CausalTask(GenerationTask):
    """The signatures of a causal language model.

    A prompt is never cut for generation; the number of new tokens is limited to what
    fits into the model's maximum length after the prompt. A prompt after which no new
    token fits is rejected.

    Shapes: `B` texts, `T` tokens of the longest text, `N` of the longest continuation.

    - `serving_default`: `text`, string (B,) → `generated_text` string (B,), the
      continuation, generated with the run's `evaluation.method`; `token_ids` int32
      (B, N) and `length` int32 (B,), the new tokens; `finished` bool (B,), whether
      generation ended at an end token or a stop string; `truncated` bool (B,), whether
      the beginning of the prompt was cut, which happens only if no new tokens were
      requested and the prompt is longer than the model's maximum.
    - `generate`: `text`, `max_new_tokens` (-1 for the default), `temperature` (0 for
      greedy decoding), `top_k` (0 for all), `top_p`, `seed`, `min_p`,
      `repetition_penalty` (1 for none), `no_repeat_ngram_size` (0 for none),
      `logit_bias` (such as `"11:2.5,50256:-100"`) and `stop`, (B,) each, or one value
      for all texts → the outputs of `serving_default`. `stop` is a string that ends
      generation and is not part of the output; several stop strings are joined with
      `stop_strings.SEPARATOR`.
    - `search`: `text`, `max_new_tokens`, `num_beams` and `length_penalty`, (B,) each →
      the outputs of `serving_default`, for the best hypothesis of a beam search, and
      `score` float32 (B,): its log-probability divided by its length to the power
      `length_penalty`.
    - `generate_ids`: `token_ids` int32 (B, T), `length` int32 (B,) and the inputs of
      `generate` except `stop` → `token_ids`, `length`, `finished`. `search_ids`
      likewise.
    - `score`: `text` → `log_likelihood` float32 (B,), in nats, of the text as a whole
      document; `num_tokens` int32 (B,), the number of scored tokens; `truncated`.
    - `score_ids`: `token_ids`, `length` → `log_likelihood`, `num_tokens`.
    - `logits_ids`: `token_ids` and `padding_mask` int32 (B, T) → `logits` float32
      (B, T, V), of the next token at each position.
    - `tokenize`: `text` → `token_ids`, `length`; no end token is added.
    - `embed`: `text` → `embedding` float32 (B, D), pooled from the last hidden states;
      `truncated`; see `Embedder`.
    - `attention`: `text` → attention weights; see `attention_endpoint`.
    - `stream_…`: see `StreamingSignatures`.

    Args:
        trained: The tokenizer and the model.
    """

    methods = {}

    def __init__(self, trained: TrainedRun):
        config = trained.config
        self.trained = trained
        self.model = trained.model
        self.tokenizer = trained.tokenizer
        self.max_length = config.model.max_sequence_length
        most = self.max_length - 1  # a prompt has at least one token
        wanted = config.evaluation.max_new_tokens or DEFAULT_NEW_TOKENS
        super().__init__(self.make_writer(min(wanted, most)), most)
        self.embedder = Embedder(trained)

    def make_writer(self, max_new_tokens: int) -> TextGenerator:
        """Makes the decoding loops, with the default number of new tokens."""
        config = self.trained.config
        return TextGenerator(
            self.tokenizer, config.evaluation, max_new_tokens, config.seed
        )

    @property
    def texts(self) -> list[tf.TensorSpec]:
        return [TEXT]

    def steps(self, *source: tf.Tensor, keep_hidden: bool = False) -> DecodeFunctions:
        assert not source
        return decoder_steps(self.model, keep_hidden=keep_hidden)

    def from_texts(self, texts: Any) -> tuple[Prompt, tf.Tensor]:
        return self._prompts(self._beginnings(*texts))

    def from_ids(self, token_ids: tf.Tensor, length: tf.Tensor) -> Prompt:
        return self._prompts(strip_padding(token_ids, length))[0]

    def example(self, rows: int, width: int) -> Prompt:
        ids = tf.ones([rows, width], tf.int32)
        room = tf.fill([rows], self.most)
        return Prompt(ids, ids, _Ragged.from_tensor(ids), room)

    def endpoints(self) -> dict[str, Endpoint]:
        return {
            **self.writing_endpoints(),
            "score": Endpoint(self.score, [TEXT]),
            "score_ids": Endpoint(self.score_ids, _IDS),
            "logits_ids": Endpoint(self.logits_ids, [ids_spec(n) for n in _INPUTS]),
            "tokenize": Endpoint(self.tokenize, [TEXT]),
            "embed": Endpoint(self.embedder.embed, [TEXT]),
            **attention_endpoint(
                self.trained, self.model, [TEXT], self.read_for_attention
            ),
        }

    def phone_endpoints(self) -> dict[str, Endpoint]:
        return decoder_endpoints(*phone_calls(self.trained))

    def score(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `score`."""
        end = self.tokenizer.special.end
        whole = append_token(self._beginnings(text), end)
        token_ids, length, truncated = right_padded(
            whole, self.max_length, self.tokenizer.special.pad
        )
        return {**self.score_ids(token_ids, length), "truncated": truncated}

    def score_ids(
        self, token_ids: tf.Tensor, length: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The signature `score_ids`."""
        mask = tf.sequence_mask(length, tf.shape(token_ids)[1], dtype=tf.int32)
        logits = self.logits_ids(token_ids, mask)["logits"]
        return log_likelihood(logits[:, :-1], token_ids[:, 1:], mask[:, 1:])

    def logits_ids(
        self, token_ids: tf.Tensor, padding_mask: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The signature `logits_ids`."""
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        return {"logits": self.model(inputs, training=False)["logits"]}

    def tokenize(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `tokenize`."""
        tokens = self._beginnings(text)
        return {
            "token_ids": tokens.to_tensor(self.tokenizer.special.pad),
            "length": tf.cast(tokens.row_lengths(), tf.int32),
        }

    def read_for_attention(self, *texts: tf.Tensor, longest: int = LONGEST) -> Any:
        """Reads texts for the signature `attention`; see `AttentionReader`."""
        token_ids, length, truncated = right_padded(
            self._beginnings(*texts),
            min(self.max_length, longest),
            self.tokenizer.special.pad,
        )
        mask = tf.sequence_mask(length, tf.shape(token_ids)[1], dtype=tf.int32)
        return {"token_ids": token_ids, "padding_mask": mask}, truncated

    def _beginnings(self, text: tf.Tensor) -> tf.RaggedTensor:
        return beginnings(self.tokenizer.tokenize(text), self.tokenizer)

    def _prompts(self, tokens: tf.RaggedTensor) -> tuple[Prompt, tf.Tensor]:
        lengths = tf.cast(tokens.row_lengths(), tf.int32)
        most = tf.fill(tf.shape(lengths), self.max_length)
        pad = self.tokenizer.special.pad
        prompts = EncodedPrompt.from_tokens(tokens, most, self.max_length, pad)
        room = self.max_length - lengths
        given = Prompt(prompts.token_ids, prompts.padding_mask, prompts.tokens, room)
        return given, prompts.truncated
