"""SentencePiece as TensorFlow functions, for the data job, trainer and serving.

The TensorFlow kernel calls SentencePiece, so models of T5, ALBERT or Llama result in
the same ids as in SentencePiece. The kernel contains SentencePiece 0.2.0: if two
segmentations have exactly equal scores, such as `00` `0` and `0` `00`, SentencePiece
0.2.2 may select a different one.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from transbeam.pipeline.tokenizers.base.graph_tokenizer import (
    RAGGED_IDS,
    TEXTS,
    AddedTokenTokenizer,
)
from transbeam.pipeline.tokenizers.base.interface import (
    SpecialIds,
    TokenOffsets,
    in_characters,
)
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    filter_rows,
    prepend_token,
    row_of_each,
)
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_proto import (
    SentencePieceProto,
)
from transbeam.pipeline.tokenizers.sentencepiece.unknown_runs import (
    shorten_unknown_runs,
    unknown_ranges,
)

# SentencePiece's symbol for a space.
_SPACE = "▁"


class WhiteSpaceSplitter(tf.Module):
    """Splits texts into the words on which a unigram model is trained.

    SentencePiece's pieces do not cross white space, so training on separate words is
    sufficient.

    Example:
    >>> WhiteSpaceSplitter().words(tf.constant(["two  words"])).to_list()
    [[b'two', b'words']]
    """

    @tf.function(input_signature=[TEXTS], autograph=False)
    def words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Maps string (N,), any bytes, to string (N, None), UTF-8."""
        return tf.strings.split(_as_utf8(texts))


class SentencePieceTokenizer(AddedTokenTokenizer):
    """Tokenizes text into the most probable pieces of a SentencePiece model.

    A SavedModel with this tokenizer needs only `tensorflow` and `tensorflow_text`.
    Invalid UTF-8 becomes U+FFFD as in `bytes.decode("utf-8", "replace")`. Names of
    special pieces in texts are not matched, except those of user-defined pieces and of
    `whole_pieces`; the text after one of the latter begins with `▁` like any other, as
    when the parts of a conversation are tokenized one by one and concatenated.
    `words` splits texts at white space and does not normalize them. Special tokens are
    decoded to their names, as separate words.

    A single word is tokenized to the same pieces as inside a sentence, as SentencePiece
    prepends a space.

    Args:
        model: The content of a `.model` file; of type unigram, BPE, word or char.
        num_sentinels: The number of sentinel ids after the model's ids, as in T5: the
            last id is that of `<extra_id_0>`, the id before it that of `<extra_id_1>`.
        special: Ids of the special tokens; by default, the model defines them.
        whole_pieces: Pieces that are matched in texts, such as the control tokens that
            a chat template writes.

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
        whole_pieces: Sequence[str] = (),
    ) -> None:
        super().__init__(name="sentence_piece_tokenizer")
        parts = SentencePieceProto(proto=model, num_sentinels=num_sentinels)
        parts.check("model")
        self.pieces = parts.pieces
        self._match_whole(whole_pieces)
        self.special = special or parts.special
        self.ordinary_ids = np.flatnonzero(parts.is_ordinary).astype(np.int32)
        has_space = np.array([piece.startswith(_SPACE) for piece in self.pieces])
        self.starts_word = has_space | ~parts.is_ordinary
        self._has_space = tf.constant(has_space)
        # `<unk>` is decoded by the library, as " ⁇ ".
        stands_alone = ~parts.is_ordinary
        stands_alone[self.special.unknown] = False
        self._stands_alone = tf.constant(stands_alone)
        self._pieces = tf.constant(self.pieces)
        # For models that keep all spaces and prepend one to the text.
        keeps_spaces = parts.processor.normalize("  a") == f"{_SPACE * 3}a"
        letters = [i for i in self.ordinary_ids.tolist() if self.pieces[i].isalnum()]
        self._anchor = letters[0] if keeps_spaces and letters else None
        self._unknown_edges = unknown_ranges(parts)
        self._model = model

    def _offsets_of(self, texts: Sequence[str]) -> list[TokenOffsets]:
        """Tokenizes texts with the character offsets of each token.

        The white space before a word belongs to the token that begins with `▁`. Tokens
        of a part of a character, such as its bytes or the letters of a ligature, have
        the offsets of the whole character.
        """
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
            # The library assigns a character of several tokens to the last one only.
            if start == end < len(text) and self.pieces[token] != _SPACE:
                found[place] = start, start + 1
        return found

    def _ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        # The kernel replaces each invalid byte by U+FFFD, other decoders several at
        # once.
        texts = shorten_unknown_runs(_as_utf8(texts), self._unknown_edges)
        return self._sentencepiece().tokenize(texts)

    @tf.function(input_signature=[TEXTS], autograph=False)
    def _tokenize_with_offsets(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        return tuple(self._sentencepiece().tokenize_with_offsets(texts))

    @tf.function(input_signature=[TEXTS], autograph=False)
    def _split_into_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return tf.strings.split(_as_utf8(texts))

    @tf.function(input_signature=[RAGGED_IDS], autograph=False)
    def _detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        # A row is split into segments: special tokens, and the tokens between them. The
        # kernel does not know sentinels and does not decode the other special tokens.
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
            self._decode(filter_rows(stretches, ~alone)),
        )
        return tf.strings.unsorted_segment_join(
            texts, tf.gather(rows, first), ids.nrows(), " "
        )

    def _sentencepiece(self) -> tf_text.SentencepieceTokenizer:
        # Created in each compiled function that uses it. The kernel of an op owns the
        # model, and a new global seed (`keras.utils.set_random_seed`) clears all
        # kernels: a function recreates its own when it is called, but an eager one is
        # lost.
        return tf_text.SentencepieceTokenizer(
            model=self._model,
            out_type=tf.int32,  # pyright: ignore[reportArgumentType]
        )

    def _decode(self, ids: tf.RaggedTensor) -> tf.Tensor:
        if self._anchor is None:
            return self._sentencepiece().detokenize(ids)
        # The kernel drops all spaces at the start of a text, the library only one.
        # After a letter the kernel drops none.
        texts = self._sentencepiece().detokenize(prepend_token(ids, self._anchor))
        has_space = ids.with_values(tf.gather(self._has_space, ids.values))
        drop = tf.cast(tf.reduce_any(has_space[:, :1], axis=1), tf.int32)
        drop += len(self.pieces[self._anchor].encode())
        return tf.strings.substr(texts, drop, tf.strings.length(texts) - drop)


def _as_utf8(texts: tf.Tensor) -> tf.Tensor:
    return tf.strings.unicode_transcode(
        texts, "UTF-8", "UTF-8", errors="replace", replacement_char=0xFFFD
    )
