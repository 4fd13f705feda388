"""The signatures of a sequence-to-sequence model."""

from typing import Any

import tensorflow as tf

from transbeam.configs.base.templates import template_parts
from transbeam.configs.loader.compatibility import decoder_length
from transbeam.configs.schema.objectives.supervised import TextToTextConfig
from transbeam.configs.schema.objectives.traits import input_names
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.generation.keras_decode_functions import seq2seq_steps
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    append_token,
    prepend_token,
)
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.attention_maps import LONGEST, attention_endpoint
from transbeam.serving.signatures.base.interface import (
    SECOND_TEXT,
    TARGET,
    TEXT,
    Endpoint,
    ids_spec,
)
from transbeam.serving.signatures.generation.generate_signatures import (
    GenerationTask,
    Prompt,
)
from transbeam.serving.signatures.generation.log_likelihood import log_likelihood
from transbeam.serving.signatures.generation.text_generation import TextGenerator
from transbeam.serving.signatures.generation.tflite_signatures import (
    phone_calls,
    seq2seq_endpoints,
)
from transbeam.serving.text_ops.text_encoder import right_padded

_Ragged: Any = tf.RaggedTensor
_FIELDS = {"text": TEXT, "second_text": SECOND_TEXT}
_INPUTS = (
    "encoder_token_ids",
    "encoder_padding_mask",
    "decoder_token_ids",
    "decoder_padding_mask",
)


class Seq2SeqTask(GenerationTask):
    """The signatures of a sequence-to-sequence model.

    A text longer than the training records is cut at its end.

    Shapes: `B` texts, `S` tokens of the longest text, `N` tokens of the longest output.

    - `serving_default`: `text`, and `second_text` if the template of `text_to_text`
      contains it, string (B,) → `generated_text` string (B,), generated with the
      run's `evaluation.method`; `token_ids` int32 (B, N) and `length` int32 (B,);
      `finished` bool (B,), whether generation ended at an end token or a stop string;
      `truncated` bool (B,), whether the text was cut.
    - `generate`: the inputs of `serving_default` and, each (B,) or one value for all
      texts, `max_new_tokens` (-1 for the default), `temperature` (0 for greedy
      decoding), `top_k` (0 for all), `top_p`, `seed`, `min_p`, `repetition_penalty` (1
      for none), `no_repeat_ngram_size` (0 for none), `logit_bias` (such as
      `"11:2.5,50256:-100"`) and `stop`, a string that ends generation (several strings
      are joined with `stop_strings.SEPARATOR`) → the outputs of `serving_default`.
    - `search`: the inputs of `serving_default`, `max_new_tokens`, `num_beams` and
      `length_penalty`, (B,) each → the outputs of `serving_default`, for the best
      hypothesis of a beam search, and `score` float32 (B,): the log-probability of this
      hypothesis divided by its length to the power `length_penalty`.
    - `generate_ids`: `token_ids` int32 (B, S), `length` int32 (B,), and the inputs of
      `generate` except `stop` → `token_ids`, `length`, `finished`. `search_ids`
      likewise.
    - `score`: the inputs of `serving_default` and `target_text` → `log_likelihood`
      float32 (B,), in nats, of the target; `num_tokens` int32 (B,), the number of
      scored tokens; `truncated`.
    - `logits_ids`: `encoder_token_ids` and `encoder_padding_mask` int32 (B, S),
      `decoder_token_ids` and `decoder_padding_mask` int32 (B, T) → `logits` float32
      (B, T, V), of the next token at each decoder position.
    - `tokenize`: the text inputs → `token_ids` int32 (B, S), `length`, `truncated`.
    - `attention`: the inputs of `serving_default` and `target_text` → attention
      weights; see `attention_endpoint`.
    - `stream_…`: see `StreamingSignatures`.

    Args:
        trained: The tokenizer and the model.
    """

    methods = {}

    def __init__(self, trained: TrainedRun):
        config, objective = trained.config, trained.config.objective
        self.objective = objective
        self.trained = trained
        self.model = trained.model
        self.tokenizer = trained.tokenizer
        template = "{text}"
        if isinstance(objective, TextToTextConfig):
            template = objective.source
        self.template = template_parts(template)
        self.max_length = config.data.sequence_length
        of_records = decoder_length(config)
        self.decoder_length = min(of_records, config.model.max_sequence_length)
        # The first token of the decoder's rows is not generated.
        most = config.model.max_sequence_length - 1
        wanted = config.evaluation.max_new_tokens or of_records
        evaluation, seed = config.evaluation, config.seed
        writer = TextGenerator(trained.tokenizer, evaluation, min(wanted, most), seed)
        super().__init__(writer, most)

    @property
    def texts(self) -> list[tf.TensorSpec]:
        return [_FIELDS[name] for name in input_names(self.objective)]

    def steps(self, *source: tf.Tensor, keep_hidden: bool = False) -> DecodeFunctions:
        inputs = self._encoder_inputs(*source).values()
        return seq2seq_steps(self.model, *inputs, keep_hidden=keep_hidden)

    def from_texts(self, texts: Any) -> tuple[Prompt, tf.Tensor]:
        ids, length, truncated = self._sources(texts)
        return self.from_ids(ids, length), truncated

    def from_ids(self, token_ids: tf.Tensor, length: tf.Tensor) -> Prompt:
        rows = tf.shape(token_ids)[0]
        first = tf.fill([rows, 1], self._first)
        nothing = _Ragged.from_row_lengths(
            tf.zeros([0], tf.int32), tf.zeros([rows], tf.int64)
        )
        room = tf.fill([rows], self.most)
        return Prompt(first, tf.ones_like(first), nothing, room, (token_ids, length))

    def example(self, rows: int, width: int) -> Prompt:
        lengths = tf.fill([rows], width)
        return self.from_ids(tf.ones([rows, width], tf.int32), lengths)

    def endpoints(self) -> dict[str, Endpoint]:
        return {
            **self.writing_endpoints(),
            "score": Endpoint(self.score, [*self.texts, TARGET]),
            "logits_ids": Endpoint(self.logits_ids, [ids_spec(n) for n in _INPUTS]),
            "tokenize": Endpoint(self.tokenize, self.texts),
            **attention_endpoint(
                self.trained, self.model, [*self.texts, TARGET], self.read_for_attention
            ),
        }

    def phone_endpoints(self) -> dict[str, Endpoint]:
        return seq2seq_endpoints(*phone_calls(self.trained), self.max_length)

    def score(self, *inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `score`."""
        *texts, target = inputs
        ids, length, truncated = self._sources(texts)
        written, written_length, cut = self._targets(target, self.decoder_length)
        size = tf.shape(written)[1]
        weights = tf.sequence_mask(written_length - 1, size - 1, dtype=tf.int32)
        read = self._encoder_inputs(ids, length).values()
        logits = self.logits_ids(*read, written[:, :-1], weights)["logits"]
        return {
            **log_likelihood(logits, written[:, 1:], weights),
            "truncated": truncated | cut,
        }

    def logits_ids(self, *inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `logits_ids`."""
        named = dict(zip(_INPUTS, inputs, strict=True))
        return {"logits": self.model(named, training=False)["logits"]}

    def tokenize(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `tokenize`."""
        names = ("token_ids", "length", "truncated")
        return dict(zip(names, self._sources(texts), strict=True))

    def read(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes source or target texts: int32 (B, None)."""
        return self.tokenizer.tokenize(texts)

    def read_for_attention(self, *texts: tf.Tensor, longest: int = LONGEST) -> Any:
        """Reads texts for the signature `attention`; see `AttentionReader`."""
        *sources, target = texts
        room = min(self.max_length, longest)
        ids, length, truncated = self._sources(sources, room)
        room = min(self.decoder_length, longest - 1)
        written, written_length, cut = self._targets(target, room)
        mask = tf.sequence_mask(written_length, tf.shape(written)[1], dtype=tf.int32)
        # The end token is a target, but never an input of the decoder.
        read = {
            "decoder_token_ids": written[:, :-1],
            "decoder_padding_mask": mask[:, 1:],
        }
        return {**self._encoder_inputs(ids, length), **read}, truncated | cut

    def _targets(self, target: tf.Tensor, longest: int) -> Any:
        """Tokenizes targets, with the decoder's start token and the end token.

        Args:
            target: string (B,).
            longest: The maximum number of target tokens, including the end token.

        Returns:
            Ids, lengths and truncation flags, as `_sources` returns them; each row also
            has the start token.
        """
        special = self.tokenizer.special
        answers = self.read(target)
        started = prepend_token(answers[:, : longest - 1], self._first)
        rows = append_token(started, special.end)
        ids, length, _ = right_padded(rows, longest + 1, special.pad)
        return ids, length, answers.row_lengths() > longest - 1

    def _sources(
        self, texts: Any, longest: int | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Tokenizes sources: ids (B, S), lengths (B,), truncation flags bool (B,)."""
        longest = longest or self.max_length
        named = dict(zip((spec.name for spec in self.texts), texts, strict=True))
        parts: list[Any] = []
        for plain, field in self.template:
            parts += [plain] if field is None else [plain, named[field]]
        tokens = self.read(tf.strings.join(parts))
        special, room = self.tokenizer.special, longest - 1
        framed = append_token(tokens[:, :room], special.end)
        ids, length, _ = right_padded(framed, longest, special.pad)
        return ids, length, tokens.row_lengths() > room

    def _encoder_inputs(self, ids: tf.Tensor, length: tf.Tensor) -> dict[str, Any]:
        mask = tf.sequence_mask(length, tf.shape(ids)[1], dtype=tf.int32)
        return {"encoder_token_ids": ids, "encoder_padding_mask": mask}

    @property
    def _first(self) -> int:
        """The decoder's start token."""
        special = self.tokenizer.special
        return special.pad if special.begin is None else special.begin
