"""SentencePiece as a TensorFlow function: one engine for the job, trainer and serving.

The kernel is SentencePiece itself, so a model of T5, ALBERT or Llama means what it
meant. It is the library's version 0.2.0: where two ways to cut a text are equally
likely to the last bit, as `00` `0` and `0` `00` are, 0.2.2 may take the other one.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.pipeline.tokenizers.base.offsets import (
    TokenOffsets,
    encodable,
    in_characters,
)
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    kept_of_each,
    row_of_each,
    with_piece_before,
)
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_proto import (
    SentencePieceProto,
)
from transbeam.pipeline.tokenizers.sentencepiece.unknown_runs import (
    shortened,
    unknown_edges,
)

Texts = tf.Tensor | np.ndarray | Sequence[str | bytes]

_TEXTS = tf.TensorSpec([None], tf.string, name="texts")
_RAGGED_IDS = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)

# How SentencePiece writes a space.
_SPACE = "▁"


class WhiteSpaceSplitter(tf.Module):
    """Cuts texts into the words a unigram model is learned from.

    SentencePiece learns no piece that goes across white space, so words are enough.

    Example:
    >>> WhiteSpaceSplitter().words(tf.constant(["two  words"])).to_list()
    [[b'two', b'words']]
    """

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """String (N,), any bytes, to string (N, None), UTF-8."""
        return tf.strings.split(_as_utf8(texts))


class SentencePieceTokenizer(tf.Module):
    """Cuts text into the pieces that are likeliest together, by a SentencePiece model.

    Works eagerly, inside `tf.data` and `tf.function`, and in a SavedModel (track it in
    a `keras.export.ExportArchive`), which then needs `tensorflow` and
    `tensorflow_text` only.

    A word alone has the pieces it has inside a sentence: SentencePiece puts the space
    before it.

    Args:
        model: The content of a `.model` file; of type unigram, BPE, word or char.
        num_sentinels: Further ids after those of the model, as in T5: the last of them
            is that of `<extra_id_0>`, the one before that of `<extra_id_1>`.
        special: Ids of the special pieces, where they are used otherwise than their
            names say.

    Raises:
        ArtifactError: The model is damaged.

    References:
        - [Kudo, 2018](https://arxiv.org/abs/1804.10959), section 3.2
        - [Kudo and Richardson, 2018](https://arxiv.org/abs/1808.06226)
    """

    word_prefix = ""

    def __init__(
        self,
        model: bytes,
        *,
        num_sentinels: int = 0,
        special: SpecialIds | None = None,
    ) -> None:
        super().__init__(name="sentence_piece_tokenizer")
        parts = SentencePieceProto(proto=model, num_sentinels=num_sentinels)
        parts.check("model")
        self.pieces = parts.pieces
        self.special = special or parts.special
        self.ordinary_ids = np.flatnonzero(parts.is_ordinary).astype(np.int32)
        has_space = np.array([piece.startswith(_SPACE) for piece in self.pieces])
        self.starts_word = has_space | ~parts.is_ordinary
        self._has_space = tf.constant(has_space)
        # `<unk>` is left to the library, which writes it as " ⁇ ".
        stands_alone = ~parts.is_ordinary
        stands_alone[self.special.unknown] = False
        self._stands_alone = tf.constant(stands_alone)
        self._pieces = tf.constant(self.pieces)
        # For a model that keeps every space, with one of its own before the text.
        keeps_spaces = parts.processor.normalize("  a") == f"{_SPACE * 3}a"
        letters = [i for i in self.ordinary_ids.tolist() if self.pieces[i].isalnum()]
        self._anchor = letters[0] if keeps_spaces and letters else None
        self._unknown_edges = unknown_edges(parts)
        self._model = model

    @property
    def vocabulary_size(self) -> int:
        """Number of pieces, special ones included."""
        return len(self.pieces)

    # Each public method hands over to a compiled one. A tf.function alone would hold
    # `self` weakly, and `load_tokenizer(folder).tokenize(texts)` would find it gone.

    def tokenize(self, texts: Texts) -> tf.RaggedTensor:
        """The ids of texts. A special piece written in a text is ordinary text.

        Only a piece that the model itself calls user-defined is found in a text.

        Args:
            texts: string `(N,)`, any bytes; what is not UTF-8 becomes U+FFFD as in
                `bytes.decode("utf-8", "replace")`.

        Returns:
            int32 `(N, None)`; no special pieces are added.
        """
        return self._tokenize(tf.convert_to_tensor(texts, tf.string))

    def tokenize_with_offsets(self, texts: Sequence[str]) -> list[TokenOffsets]:
        """The tokens of each text with the characters of it that they stand for.

        The white space before a word belongs to the token that begins with `▁`. Tokens
        of one character, such as its bytes or the letters of a ligature, have all of
        it.
        """
        texts = encodable(texts)
        found = self._tokenize_with_offsets(tf.constant(texts, tf.string))
        rows = zip(texts, *(each.to_list() for each in found), strict=True)
        return [
            TokenOffsets(ids, self._offsets(text, ids, np.array([starts, ends], int)))
            for text, ids, starts, ends in rows
        ]

    def _offsets(
        self, text: str, ids: list[int], edges: np.ndarray
    ) -> list[tuple[int, int]]:
        found = in_characters(text, *edges)
        for place, (token, (start, end)) in enumerate(zip(ids, found, strict=True)):
            # The library gives a character of several tokens to the last one alone.
            if start == end < len(text) and self.pieces[token] != _SPACE:
                found[place] = start, start + 1
        return found

    def words(self, texts: Texts) -> tf.RaggedTensor:
        """What stands between white space: what a model is learned from.

        Args:
            texts: string `(N,)`, any bytes.

        Returns:
            string `(N, None)`, UTF-8, not normalised.
        """
        return self._words(tf.convert_to_tensor(texts, tf.string))

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Text from ids.

        Args:
            ids: int32 `(N, None)`.

        Returns:
            string `(N,)`, as SentencePiece decodes it; but special pieces stand as
            themselves, as words.

        Raises:
            tf.errors.InvalidArgumentError: An id is outside the vocabulary.
        """
        return self._detokenize(ids)

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        # The kernel makes a U+FFFD of each wrong byte, others one of several.
        texts = shortened(_as_utf8(texts), self._unknown_edges)
        return self._sentencepiece().tokenize(texts)

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def _tokenize_with_offsets(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        return tuple(self._sentencepiece().tokenize_with_offsets(texts))

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def _words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return tf.strings.split(_as_utf8(texts))

    @tf.function(input_signature=[_RAGGED_IDS], autograph=False)
    def _detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        # A row is cut into stretches: each special piece is one, and what is between
        # two of them. The kernel knows neither sentinels nor how to show the others.
        alone = tf.gather(self._stands_alone, ids.values)
        rows = row_of_each(ids)
        is_first = tf.concat([[True], (rows[1:] != rows[:-1]) | alone[:-1]], axis=0)
        is_first = is_first[: tf.size(rows)] | alone
        first = tf.where(is_first)[:, 0]
        stretches = tf.RaggedTensor.from_row_splits(  # pyright: ignore
            ids.values, tf.concat([first, ids.row_splits[-1:]], axis=0), validate=False
        )
        texts = tf.where(
            tf.gather(alone, first),
            tf.gather(self._pieces, tf.gather(ids.values, first)),
            self._decode(kept_of_each(stretches, ~alone)),
        )
        return tf.strings.unsorted_segment_join(
            texts, tf.gather(rows, first), ids.nrows(), " "
        )

    def _sentencepiece(self) -> tf_text.SentencepieceTokenizer:
        # Made anew in each compiled function that uses it. The model is held by the
        # kernel of an op, and a new global seed (`keras.utils.set_random_seed`) clears
        # all kernels: a function makes its own again when it is called, but what was
        # made eagerly is lost.
        return tf_text.SentencepieceTokenizer(
            model=self._model,
            out_type=tf.int32,  # pyright: ignore[reportArgumentType]
        )

    def _decode(self, ids: tf.RaggedTensor) -> tf.Tensor:
        if self._anchor is None:
            return self._sentencepiece().detokenize(ids)
        # Of the spaces a text begins with the kernel drops several, the library one.
        # Behind a letter the kernel drops none.
        texts = self._sentencepiece().detokenize(with_piece_before(ids, self._anchor))
        has_space = ids.with_values(tf.gather(self._has_space, ids.values))
        drop = tf.cast(tf.reduce_any(has_space[:, :1], axis=1), tf.int32)
        drop += len(self.pieces[self._anchor].encode())
        return tf.strings.substr(texts, drop, tf.strings.length(texts) - drop)


def _as_utf8(texts: tf.Tensor) -> tf.Tensor:
    return tf.strings.unicode_transcode(
        texts, "UTF-8", "UTF-8", errors="replace", replacement_char=0xFFFD
    )
