"""Signatures of models with one answer for each word of a text."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from transbeam.configs.schema.objectives.objective import WordsObjective
from transbeam.configs.schema.objectives.traits import traits
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    flatten_rows,
    positions_in_rows,
    prepend_token,
    row_of_each,
    split_rows,
)
from transbeam.pipeline.tokenizers.base.text_frame import frame_of_run
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.attention_maps import LONGEST, attention_endpoint
from transbeam.serving.signatures.base.interface import TEXT, Endpoint, ids_spec
from transbeam.serving.signatures.base.logit_scaling import scale_logits
from transbeam.serving.signatures.word_answers import changes, make_word_answer
from transbeam.serving.text_ops.row_blocks import in_blocks
from transbeam.serving.text_ops.text_encoder import TextEncoder
from transbeam.serving.text_ops.word_split import split_words

# Maximum tokens of a word; a longer one is cut. Words are kept below half of a row.
_LONGEST_WORD = 16
_Ragged: Any = tf.RaggedTensor
_INPUTS = ("token_ids", "padding_mask")
_WORDS = tf.TensorSpec([None, None], tf.string, name="words")


class WordRows(NamedTuple):
    """The tokens of N words in R rows for the model.

    Attributes:
        tokens: int32 (R, None), the tokens of consecutive words.
        rows: int64 (N,), the row of each word.
        positions: int64 (N,), the position of each word's first token in the row with
            special tokens.
    """

    tokens: tf.RaggedTensor
    rows: tf.Tensor
    positions: tf.Tensor


class WordsTask:
    """The signatures of a model that predicts one answer for each word of a text.

    A text longer than the model's maximum continues in a further row, split between two
    words as in the training records, so that each word has an answer. The model
    processes only the first 16 tokens of a longer word. A decoder's answer is that of
    the word's first token and of the words before it; no later token is seen.

    Shapes: `B` texts, `W` words of the text with most words, `T` tokens; the shapes of
    answers are in `word_answers`. Rows are padded with `""` and 0.

    - `serving_default`: `text`, string (B,) → `words` string (B, W); `starts` and
      `ends` int32 (B, W), their offsets in code points; the answers (B, W), and outputs
      derived from the answers, such as entities.
    - `tag_words` and so on: `words`, string (B, W), padded with `""` → the answers.
    - `tag_ids` and so on: ids → the model's scores (B, T, ...); the scores at a word's
      first token are those of the word. Logits are divided by the temperature, if the
      export applies one.
    - `tokenize`: `text` → `token_ids` int32 (B, T), without special tokens; `word_ids`
      int32 (B, T), the word index of each token; `length` int32 (B,).

    Args:
        trained: The tokenizer and the model.
    """

    methods = {}

    def __init__(self, trained: TrainedRun):
        objective = trained.config.objective
        assert isinstance(objective, WordsObjective)
        signature = traits(objective).ids_signature
        assert signature is not None
        self.by_ids = signature
        self.answer = make_word_answer(objective, trained.config.evaluation)
        self.trained = trained
        self.tokenizer = trained.tokenizer
        self.model = trained.model
        self.max_length = trained.config.model.max_sequence_length
        self.frame = frame_of_run(trained.config, self.tokenizer.special)
        self.encoder = TextEncoder(self.tokenizer, self.max_length, self.frame)
        self.room = self.max_length - self.frame.size()
        self.longest_word = min(_LONGEST_WORD, (self.room + 1) // 2)

    def endpoints(self) -> dict[str, Endpoint]:
        by_words = self.by_ids.replace("_ids", "_words")
        return {
            "serving_default": Endpoint(self.answer_texts, [TEXT]),
            by_words: Endpoint(self.answer_words, [_WORDS]),
            self.by_ids: Endpoint(self.ask, [ids_spec(name) for name in _INPUTS]),
            "tokenize": Endpoint(self.tokenize, [TEXT]),
            **attention_endpoint(
                self.trained, self.model, [TEXT], self.read_for_attention
            ),
        }

    def phone_endpoints(self) -> dict[str, Endpoint]:
        specs = [ids_spec(name, 1, None) for name in _INPUTS]
        return {self.by_ids: Endpoint(self.ask, specs)}

    def answer_texts(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `serving_default`."""
        words = split_words(text)
        answers = self._answer(words.texts)
        found = {
            "words": words.texts,
            "starts": words.starts,
            "ends": words.ends,
            **self.answer.word_outputs(words.texts, answers),
            **self.answer.text_outputs(text, words, answers),
        }
        return {name: column.to_tensor() for name, column in found.items()}

    def answer_words(self, words: tf.Tensor) -> dict[str, tf.Tensor]:
        """Implements the signature on words, such as `tag_words`."""
        # Up to the last word; "" before it is a word like a control character.
        count = tf.where(words != "", tf.range(1, tf.shape(words)[1] + 1), 0)
        number = tf.reduce_max(tf.pad(count, [[0, 0], [1, 0]]), axis=1)
        ragged = _Ragged.from_tensor(words, lengths=number)
        shape = tf.shape(words, tf.int64)
        found = self.answer.word_outputs(ragged, self._answer(ragged))
        return {name: column.to_tensor(shape=shape) for name, column in found.items()}

    def ask(self, token_ids: tf.Tensor, padding_mask: tf.Tensor) -> Mapping[str, Any]:
        """Computes the model's outputs for rows of ids."""
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        return scale_logits(self.trained, self.model(inputs, training=False))

    def tokenize(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `tokenize`."""
        words = split_words(text).texts
        pieces = self._pieces_of_words(words)
        numbers = positions_in_rows(words)  # of words in their texts
        word_ids = tf.repeat(numbers, pieces.row_lengths())
        of_texts = flatten_rows(words.with_values(pieces))
        return {
            "token_ids": of_texts.to_tensor(self.tokenizer.special.pad),
            "word_ids": of_texts.with_values(tf.cast(word_ids, tf.int32)).to_tensor(),
            "length": tf.cast(of_texts.row_lengths(), tf.int32),
        }

    def read_for_attention(self, *texts: tf.Tensor, longest: int = LONGEST) -> Any:
        """Reads texts for the signature `attention`; see `AttentionReader`."""
        words = split_words(*texts).texts
        of_texts = flatten_rows(words.with_values(self._pieces_of_words(words)))
        encoded = self.encoder.shorter(longest).text(of_texts)
        return {name: getattr(encoded, name) for name in _INPUTS}, encoded.truncated

    def _answer(self, words: tf.RaggedTensor) -> list[tf.Tensor]:
        """Returns the answers for each word, (N,)."""
        pieces = self.pack(words)
        # Words are sorted by their rows.
        first_words = tf.searchsorted(
            pieces.rows, tf.range(pieces.tokens.nrows() + 1), out_type=tf.int64
        )

        def answer(begin: tf.Tensor, end: tf.Tensor) -> list[tf.Tensor]:
            encoded = self.encoder.text(pieces.tokens[begin:end])
            outputs = self.ask(encoded.token_ids, encoded.padding_mask)
            some = slice(first_words[begin], first_words[end])
            row = pieces.rows[some] - tf.cast(begin, tf.int64)
            at = tf.stack([row, pieces.positions[some]], axis=1)
            return self.answer.read(
                {n: tf.gather_nd(x, at) for n, x in outputs.items()}
            )

        count, lengths = pieces.tokens.nrows(tf.int32), pieces.tokens.row_lengths()
        longest = tf.reduce_max(tf.pad(tf.cast(lengths, tf.int32), [[0, 1]]))
        width = longest + self.frame.size()
        return in_blocks(count, width, answer, self.answer.dtypes)

    def pack(self, words: tf.RaggedTensor) -> WordRows:
        """Packs the words of texts into rows, several rows for a long text.

        Row k of a long text has the words whose last token has an index from k * `step`
        to (k + 1) * `step` - 1. The first word of a row may begin before that range, so
        a row has up to `step` + `longest_word` - 1 tokens, which equals `room`.
        """
        room, longest = self.room, self.longest_word
        step = room - longest + 1
        pieces = self._pieces_of_words(words)
        lengths, text_of = pieces.row_lengths(), row_of_each(words)
        of_texts = words.with_values(lengths)
        fits = tf.gather(tf.reduce_sum(of_texts, axis=1) <= room, text_of)
        last = tf.maximum(tf.cumsum(of_texts, axis=1).values - 1, 0)
        stretch = tf.where(fits, tf.zeros_like(last), last // step)
        begins = changes(text_of) | changes(stretch)
        rows = tf.cumsum(tf.cast(begins, tf.int64)) - 1
        starts = tf.cumsum(lengths, exclusive=True)  # among the pieces of all words
        in_row = starts - tf.gather(tf.gather_nd(starts, tf.where(begins)), rows)
        count = tf.reduce_sum(tf.cast(begins, tf.int64))
        of_rows = tf.math.unsorted_segment_sum(lengths, rows, count)
        tokens = split_rows(pieces.values, of_rows)
        return WordRows(tokens, rows, in_row + self.frame.starts)

    def _pieces_of_words(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Tokenizes each word as it is tokenized in its text: ids (N, None)."""
        texts = words.values
        if self.tokenizer.word_prefix:
            prefixed = tf.strings.join([self.tokenizer.word_prefix, texts])
            texts = tf.where(changes(row_of_each(words)), texts, prefixed)
        pieces = self.tokenizer.tokenize(texts)[:, : self.longest_word]
        unknown = self.tokenizer.special.unknown
        if unknown is None:
            return pieces
        return prepend_token(pieces, unknown, pieces.row_lengths() == 0)
