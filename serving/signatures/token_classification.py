"""The signatures of a token classification model: a tag per word, and entities."""

from typing import Any, NamedTuple

import tensorflow as tf

from transbeam.configs.base.bio_tags import EntityTags, marks_entities
from transbeam.configs.schema.objectives.supervised import TokenClassificationConfig
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    place_of_each,
    row_of_each,
    rows_in_one,
    split_rows,
    with_piece_before,
)
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.attention_maps import LONGEST, attention_endpoint
from transbeam.serving.signatures.base.interface import TEXT, Endpoint, ids_spec
from transbeam.serving.text_ops.row_blocks import in_blocks
from transbeam.serving.text_ops.text_encoder import TextEncoder
from transbeam.serving.text_ops.utf8_characters import Characters
from transbeam.serving.text_ops.word_split import SplitWords, split_words

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
        places: int64 (N,), the position of its first token in the row with special
            tokens.
    """

    tokens: tf.RaggedTensor
    rows: tf.Tensor
    places: tf.Tensor


class TokenClassificationTask:
    """The signatures of a token classification model.

    A text longer than the model's maximum continues in a further row, split between two
    words as in the training records, so that each word has a tag. Of a word of more
    than 16 tokens the model reads the first 16.

    Shapes: `B` texts, `W` words of the text with most words, `E` entities of the text
        with
    most entities, `T` tokens, `C` tags. Rows are padded with `""` and 0.

    - `serving_default`: `text`, string (B,) → `words` string (B, W); `starts` and
      `ends` int32 (B, W), their offsets in code points; `tags` string (B, W) and
      `scores` float32 (B, W), their probabilities. Where the tags mark entities, also
      `entities` and `entity_types` string (B, E), `entity_starts` and `entity_ends`
      int32 (B, E).
    - `tag_words`: `words`, string (B, W), padded with `""` → `tags`, `scores`.
    - `tag_ids`: ids → `logits` float32 (B, T, C); a word's are those at its first
      token.
    - `tokenize`: `text` → `token_ids` int32 (B, T), without special tokens; `word_ids`
      int32 (B, T), the word index of each token; `length` int32 (B,).

    Args:
        trained: The tokenizer and the model.
    """

    methods = {}

    def __init__(self, trained: TrainedRun):
        objective = trained.config.objective
        assert isinstance(objective, TokenClassificationConfig)
        self.labels = objective.labels
        self.strict = trained.config.evaluation.strict_entities
        self.trained = trained
        self.tokenizer = trained.tokenizer
        self.model = trained.model
        self.max_length = trained.config.model.max_sequence_length
        self.encoder = TextEncoder(self.tokenizer, self.max_length)
        self.room = self.max_length - 2
        self.longest_word = min(_LONGEST_WORD, (self.room + 1) // 2)

    def endpoints(self) -> dict[str, Endpoint]:
        return {
            "serving_default": Endpoint(self.tag, [TEXT]),
            "tag_words": Endpoint(self.tag_words, [_WORDS]),
            "tag_ids": Endpoint(self.tag_ids, [ids_spec(name) for name in _INPUTS]),
            "tokenize": Endpoint(self.tokenize, [TEXT]),
            **attention_endpoint(self.trained, self.model, [TEXT], self._looked_at),
        }

    def phone_endpoints(self) -> dict[str, Endpoint]:
        specs = [ids_spec(name, 1, None) for name in _INPUTS]
        return {"tag_ids": Endpoint(self.tag_ids, specs)}

    def tag(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `serving_default`."""
        words = split_words(text)
        best, scores = self._choose(words.texts)
        found = {
            "words": words.texts,
            "starts": words.starts,
            "ends": words.ends,
            "tags": words.texts.with_values(tf.gather(self.labels, best)),
            "scores": words.texts.with_values(scores),
        }
        if marks_entities(self.labels):
            tags = EntityTags(self.labels)
            found |= entities(text, words, best, tags, strict=self.strict)
        return {name: column.to_tensor() for name, column in found.items()}

    def tag_words(self, words: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `tag_words`."""
        # Up to the last word; "" before it is a word like a control character.
        count = tf.where(words != "", tf.range(1, tf.shape(words)[1] + 1), 0)
        number = tf.reduce_max(tf.pad(count, [[0, 0], [1, 0]]), axis=1)
        ragged = _Ragged.from_tensor(words, lengths=number)
        best, scores = self._choose(ragged)
        shape = tf.shape(words, tf.int64)
        tags = ragged.with_values(tf.gather(self.labels, best))
        return {
            "tags": tags.to_tensor(shape=shape),
            "scores": ragged.with_values(scores).to_tensor(shape=shape),
        }

    def tag_ids(
        self, token_ids: tf.Tensor, padding_mask: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The signature `tag_ids`."""
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        return {"logits": self.model(inputs, training=False)["logits"]}

    def tokenize(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `tokenize`."""
        words = split_words(text).texts
        pieces = self._pieces_of_words(words)
        numbers = place_of_each(words)  # of words in their texts
        word_ids = tf.repeat(numbers, pieces.row_lengths())
        of_texts = rows_in_one(words.with_values(pieces))
        return {
            "token_ids": of_texts.to_tensor(self.tokenizer.special.pad),
            "word_ids": of_texts.with_values(tf.cast(word_ids, tf.int32)).to_tensor(),
            "length": tf.cast(of_texts.row_lengths(), tf.int32),
        }

    def _looked_at(self, text: tf.Tensor) -> Any:
        words = split_words(text).texts
        of_texts = rows_in_one(words.with_values(self._pieces_of_words(words)))
        encoded = self.encoder.shorter(LONGEST).text(of_texts)
        return {name: getattr(encoded, name) for name in _INPUTS}, encoded.truncated

    def _choose(self, words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the most probable tag of each word (N,), and its probability."""
        pieces = self._pieces(words)
        # Words are sorted by their rows.
        first_words = tf.searchsorted(
            pieces.rows, tf.range(pieces.tokens.nrows() + 1), out_type=tf.int64
        )

        def choose(begin: tf.Tensor, end: tf.Tensor) -> list[tf.Tensor]:
            encoded = self.encoder.text(pieces.tokens[begin:end])
            logits = self.tag_ids(encoded.token_ids, encoded.padding_mask)["logits"]
            some = slice(first_words[begin], first_words[end])
            row = pieces.rows[some] - tf.cast(begin, tf.int64)
            at = tf.stack([row, pieces.places[some]], axis=1)
            probabilities = tf.nn.softmax(tf.gather_nd(logits, at))  # (N, C)
            best = tf.argmax(probabilities, axis=1)
            return [best, tf.reduce_max(probabilities, axis=1)]

        count, lengths = pieces.tokens.nrows(tf.int32), pieces.tokens.row_lengths()
        width = tf.reduce_max(tf.pad(tf.cast(lengths, tf.int32), [[0, 1]])) + 2
        best, scores = in_blocks(count, width, choose, [tf.int64, tf.float32])
        return best, scores

    def _pieces(self, words: tf.RaggedTensor) -> WordRows:
        """Packs the words of texts into rows, several rows for a long text.

        Row k of a long text has the words whose last token is one of those from number
        k * `step` to before number (k + 1) * `step`. The first of these words may begin
        earlier, so a row has up to `step` + `longest_word` - 1 tokens, which is `room`.
        """
        room, longest = self.room, self.longest_word
        step = room - longest + 1
        pieces = self._pieces_of_words(words)
        lengths, text_of = pieces.row_lengths(), row_of_each(words)
        of_texts = words.with_values(lengths)
        fits = tf.gather(tf.reduce_sum(of_texts, axis=1) <= room, text_of)
        last = tf.maximum(tf.cumsum(of_texts, axis=1).values - 1, 0)
        stretch = tf.where(fits, tf.zeros_like(last), last // step)
        begins = _differs(text_of) | _differs(stretch)
        rows = tf.cumsum(tf.cast(begins, tf.int64)) - 1
        starts = tf.cumsum(lengths, exclusive=True)  # among the pieces of all words
        in_row = starts - tf.gather(tf.gather_nd(starts, tf.where(begins)), rows)
        count = tf.reduce_sum(tf.cast(begins, tf.int64))
        of_rows = tf.math.unsorted_segment_sum(lengths, rows, count)
        tokens = split_rows(pieces.values, of_rows)
        return WordRows(tokens, rows, in_row + 1)

    def _pieces_of_words(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Tokenizes all words (N, None), each as inside its sentence."""
        texts = words.values
        if self.tokenizer.word_prefix:
            prefixed = tf.strings.join([self.tokenizer.word_prefix, texts])
            texts = tf.where(_differs(row_of_each(words)), texts, prefixed)
        pieces = self.tokenizer.tokenize(texts)[:, : self.longest_word]
        unknown = self.tokenizer.special.unknown
        if unknown is None:
            return pieces
        return with_piece_before(pieces, unknown, pieces.row_lengths() == 0)


def entities(
    text: tf.Tensor,
    words: SplitWords,
    tag_ids: tf.Tensor,
    tags: EntityTags,
    *,
    strict: bool = False,
) -> dict[str, tf.RaggedTensor]:
    """Extracts the entities that word tags mark, by the rules of CoNLL's shared tasks.

    Args:
        text: string (B,).
        words: The words of these texts, N in all.
        tag_ids: int64 (N,).
        tags: The meaning of the tags.
        strict: Whether to drop entities that are invalid in the tagging scheme.

    Returns:
        `entities`, `entity_types`, `entity_starts` and `entity_ends`, each (B, None).
    """
    types = tf.gather(tags.type_of, tag_ids)
    opens, closes = (tf.gather(each, tag_ids) for each in (tags.opens, tags.closes))
    text_of = row_of_each(words.texts)
    first = _differs(text_of)
    after_close = tf.concat([closes[:1], closes[:-1]], axis=0)
    inside: Any = types >= 0
    begin = inside & (first | opens | after_close | _differs(types))
    goes_on: Any = tf.concat([(inside & ~begin)[1:], tf.zeros_like(first[:1])], axis=0)
    end = inside & ~goes_on
    first_words, last_words = tf.where(begin), tf.where(end)
    if strict:
        right = tf.gather_nd(opens, first_words)
        if any(tags.closes):
            right &= tf.gather_nd(closes, last_words)
        first_words, last_words = first_words[right], last_words[right]
    starts = tf.gather_nd(words.starts.values, first_words)
    ends = tf.gather_nd(words.ends.values, last_words)
    of = tf.gather_nd(text_of, first_words)
    lengths = tf.math.unsorted_segment_sum(tf.ones_like(of), of, words.texts.nrows())

    def per_text(values: Any) -> tf.RaggedTensor:
        return split_rows(values, lengths)

    spans = Characters.from_texts(text).stretches(of, starts, ends)
    return {
        "entities": per_text(spans),
        "entity_types": per_text(
            tf.gather(tags.types, tf.gather_nd(types, first_words))
        ),
        "entity_starts": per_text(starts),
        "entity_ends": per_text(ends),
    }


def _differs(values: tf.Tensor) -> tf.Tensor:
    """Returns whether each value differs from the previous one: bool (N,)."""
    changed = values[1:] != values[:-1]
    return tf.concat([tf.ones_like(values[:1], tf.bool), changed], axis=0)
