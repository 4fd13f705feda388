"""Byte-level BPE as a TensorFlow function: one engine for job, trainer and serving.

The ids are those of the Rust `tokenizers` library (`ByteLevel`, `BPE`), so the
vocabulary and merges of GPT-2 or RoBERTa mean what they meant.
"""

import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.pipeline.tokenizers.base.offsets import TokenOffsets, encodable, of_sizes
from transbeam.pipeline.tokenizers.base.ragged_rows import joined, rows_in_one, rows_of
from transbeam.pipeline.tokenizers.base.whole_pieces import (
    offsets_around,
    tokenize_around,
    whole_pieces_of,
)
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import (
    END_OF_TEXT,
    SPACE,
    byte_bpe_special_ids,
    check_byte_bpe,
    from_alphabet,
)
from transbeam.pipeline.tokenizers.byte_bpe.gpt2_pre_tokenization import (
    UniqueWords,
    split_into_words,
    unique_words,
)
from transbeam.pipeline.tokenizers.byte_bpe.pair_merging import PairMerger

Texts = tf.Tensor | np.ndarray | Sequence[str | bytes]

_TEXTS = tf.TensorSpec([None], tf.string, name="texts")
_RAGGED_IDS = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)

_SINGLE_BYTES = [bytes([byte]) for byte in range(256)]


class ByteBPETokenizer(tf.Module):
    """Cuts text into words as GPT-2 does, and words into pieces by merging bytes.

    Works eagerly, inside `tf.data` and `tf.function`, and in a SavedModel (track it in
    a `keras.export.ExportArchive`), which then needs nothing beside TensorFlow: all ops
    are core ops, as every TF Serving has them.

    Each different word is merged once per call, so blocks of a megabyte and more are
    the fastest. Time and memory grow in proportion to the text, however long its words
    are.

    Args:
        vocabulary: The pieces in the order of their ids, in GPT-2's alphabet of bytes,
            special pieces included.
        merges: The pairs of pieces to be joined, the most urgent first.
        special_pieces: Those of the vocabulary that stand for no bytes of a text.
        add_prefix_space: Put a space before a text that does not begin with one, so
            that its first word is like any other.
        special: Ids of the special pieces, where they are used otherwise than their
            names say.
        whole_pieces: Those of the vocabulary that are found whole in a text.

    Raises:
        ArtifactError: A piece is faulty or there twice, a byte or a special piece is
            missing, a merge needs a piece that is missing, or text can be taken for a
            special piece.

    Example:
    >>> from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
    >>> pieces = [*ALPHABET, "Ġa", "Ġan", "<|endoftext|>"]
    >>> tokenizer = ByteBPETokenizer(pieces, [("Ġ", "a"), ("Ġa", "n")])
    >>> tokenizer.tokenize(["a an"]).to_list()
    [[97, 257]]

    References:
        - [Radford et al., 2019](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf),
          section 2.2
        - [Sennrich et al., 2015](https://arxiv.org/abs/1508.07909), section 3.2
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        merges: Sequence[tuple[str, str]],
        *,
        special_pieces: Sequence[str] = (END_OF_TEXT,),
        add_prefix_space: bool = False,
        special: SpecialIds | None = None,
        whole_pieces: Sequence[str] = (),
    ) -> None:
        super().__init__(name="byte_bpe_tokenizer")
        check_byte_bpe(vocabulary, merges, special_pieces, where="vocabulary")
        self.pieces = tuple(vocabulary)
        self.special_pieces = tuple(special_pieces)
        self.add_prefix_space = add_prefix_space
        self._given_special = special
        self.whole = whole_pieces_of(self.pieces, whole_pieces)
        self._merger = PairMerger(self.pieces, merges)
        names = set(special_pieces)
        is_special = np.array([piece in names for piece in self.pieces])
        self.ordinary_ids = np.flatnonzero(~is_special).astype(np.int32)
        starts = [piece.startswith(SPACE) for piece in self.pieces]
        self.starts_word = is_special | np.array(starts)
        contents = [
            piece.encode() if piece in names else from_alphabet(piece)
            for piece in self.pieces
        ]
        self._sizes = np.array([*map(len, contents)], np.int64)
        self._contents = tf.constant(contents)

    @property
    def vocabulary_size(self) -> int:
        """Number of pieces, special ones included."""
        return len(self.pieces)

    @property
    def special(self) -> SpecialIds:
        """The ids of the special pieces, by the names GPT-2 and RoBERTa give them.

        Raises:
            ValueError: The vocabulary has the special pieces of neither.
        """
        return self._special

    @functools.cached_property
    def _special(self) -> SpecialIds:
        return self._given_special or byte_bpe_special_ids(self.pieces)

    @property
    def word_prefix(self) -> str:
        """What makes a word alone the pieces it is inside a sentence."""
        return "" if self.add_prefix_space else " "

    # Each public method hands over to a compiled one. A tf.function alone would hold
    # `self` weakly, and `load_tokenizer(folder).tokenize(texts)` would find it gone.

    def tokenize(self, texts: Texts) -> tf.RaggedTensor:
        """The ids of texts. A special piece written in a text is ordinary text.

        Args:
            texts: string `(N,)`, any bytes; what is not UTF-8 becomes U+FFFD, as in
                `bytes.decode("utf-8", "replace")`.

        Returns:
            int32 `(N, None)`; no special pieces are added.
        """
        return self._tokenize(tf.convert_to_tensor(texts, tf.string))

    def tokenize_with_offsets(self, texts: Sequence[str]) -> list[TokenOffsets]:
        """The tokens of each text with the characters of it that they stand for.

        The space before a word belongs to its first token: without a space that was
        put before a text, `text[start:end]` of all tokens put together are the text,
        unless tokens share a character.

        Example:
        >>> from transbeam.pipeline.tokenizers.byte_bpe import byte_bpe_vocabulary
        >>> pieces = [*byte_bpe_vocabulary.ALPHABET, "Ġa", "<|endoftext|>"]
        >>> ByteBPETokenizer(pieces, [("Ġ", "a")]).tokenize_with_offsets(["é a"])
        [TokenOffsets(ids=[195, 169, 256], offsets=[(0, 1), (0, 1), (1, 3)])]
        """
        return offsets_around(self.whole, encodable(texts), self._offsets_of)

    def _offsets_of(self, texts: Sequence[str]) -> list[TokenOffsets]:
        rows = self._ids_of(tf.constant(texts, tf.string)).to_list()
        return [
            TokenOffsets(ids, of_sizes(text, self._sizes[ids]))
            for text, ids in zip(texts, rows, strict=True)
        ]

    def words(self, texts: Texts) -> tf.RaggedTensor:
        """The words that `tokenize` looks up: what a vocabulary is made of.

        Args:
            texts: string `(N,)`, any bytes; what is not UTF-8 becomes U+FFFD.

        Returns:
            string `(N, None)`, UTF-8. Put together they are the text.
        """
        return self._split_into_words(tf.convert_to_tensor(texts, tf.string))

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """The bytes that ids stand for: what was tokenized, if it was UTF-8.

        Args:
            ids: int32 `(N, None)`.

        Returns:
            string `(N,)`; special pieces stand as themselves. Ids that end in the
            middle of a character give bytes that are not UTF-8.

        Raises:
            tf.errors.InvalidArgumentError: An id is outside the vocabulary.
        """
        return self._detokenize(ids)

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return tokenize_around(self.whole, texts, self._ids_of)

    def _ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        unique, per_text = self._unique_words(texts)
        ids = self._merger(unique.values, unique.owners, unique.count)
        rows = tf.gather(ids, unique.index)
        return rows_in_one(rows_of(rows, per_text))

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def _split_into_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        unique, per_text = self._unique_words(texts)
        letters = tf.gather(_SINGLE_BYTES, tf.cast(unique.values, tf.int32))
        words = tf.strings.unsorted_segment_join(letters, unique.owners, unique.count)
        rows = tf.gather(words, unique.index)
        return rows_of(rows, per_text)

    @tf.function(input_signature=[_RAGGED_IDS], autograph=False)
    def _detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        pieces = ids.with_values(tf.gather(self._contents, ids.values))
        return joined(pieces)

    def _unique_words(self, texts: tf.Tensor) -> tuple[UniqueWords, tf.Tensor]:
        if self.add_prefix_space:
            first = tf.strings.substr(texts, 0, 1)
            lacks_it = tf.not_equal(first, " ") & tf.not_equal(first, "")
            texts = tf.where(lacks_it, tf.strings.join([" ", texts]), texts)
        words = split_into_words(texts)
        return unique_words(words), words.per_text
