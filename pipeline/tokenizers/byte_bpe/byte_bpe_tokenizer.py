"""Byte-level BPE as TensorFlow functions, for the data job, trainer and serving.

The ids are those of the Rust `tokenizers` library (`ByteLevel`, `BPE`), so the
vocabulary and merges of GPT-2 or RoBERTa result in the same ids.
"""

import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.pipeline.tokenizers.base.offsets import TokenOffsets, encodable, of_sizes
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    joined,
    rows_in_one,
    split_rows,
)
from transbeam.pipeline.tokenizers.base.whole_pieces import (
    make_added_token_matcher,
    offsets_around,
    tokenize_around,
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
    """Splits text into words as GPT-2 does, and words into pieces by merging bytes.

    Works eagerly, inside `tf.data` and `tf.function`, and in a SavedModel (track it in
    a `keras.export.ExportArchive`), which then needs only TensorFlow: all ops are core
    ops that every TF Serving has.

    Each distinct word is merged once per call, so blocks of a megabyte and more are the
    fastest. Time and memory are linear in the text, regardless of the lengths of words.

    Args:
        vocabulary: The pieces in the order of their ids, in GPT-2's alphabet of bytes,
            special pieces included.
        merges: The pairs of pieces to merge, by rank.
        special_pieces: The pieces that do not represent bytes of a text.
        add_prefix_space: Whether to prepend a space to texts that do not begin with
            one, so that the first word is tokenized like others.
        special: Ids of the special tokens, if they differ from the defaults for their
            names.
        whole_pieces: The added tokens of the vocabulary.

    Raises:
        ArtifactError: A piece is invalid or duplicated, a byte, a special piece or a
            piece of a merge is missing, or a text can be tokenized to a special piece.

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
        self.whole = make_added_token_matcher(self.pieces, whole_pieces)
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
        """The number of pieces including special ones."""
        return len(self.pieces)

    @property
    def special(self) -> SpecialIds:
        """The ids of the special tokens, by their names in GPT-2 and RoBERTa.

        Raises:
            ValueError: The vocabulary has the special tokens of neither.
        """
        return self._special

    @functools.cached_property
    def _special(self) -> SpecialIds:
        return self._given_special or byte_bpe_special_ids(self.pieces)

    @property
    def word_prefix(self) -> str:
        """The prefix with which a single word has the same pieces as in a sentence."""
        return "" if self.add_prefix_space else " "

    # Each public method delegates to a compiled one. A tf.function alone holds `self`
    # weakly, and `load_tokenizer(folder).tokenize(texts)` would lose it.

    def tokenize(self, texts: Texts) -> tf.RaggedTensor:
        """Tokenizes texts. Names of special tokens in a text are ordinary text.

        Args:
            texts: string `(N,)`, any bytes; invalid UTF-8 becomes U+FFFD, as in
                `bytes.decode("utf-8", "replace")`.

        Returns:
            int32 `(N, None)`; no special tokens are added.
        """
        return self._tokenize(tf.convert_to_tensor(texts, tf.string))

    def tokenize_with_offsets(self, texts: Sequence[str]) -> list[TokenOffsets]:
        """Tokenizes texts with the character offsets of each token.

        The space before a word belongs to its first token: apart from a prepended
        space, the slices `text[start:end]` of all tokens concatenate to the text,
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
        """Splits texts into words as `tokenize` does, for training a vocabulary.

        Args:
            texts: string `(N,)`, any bytes; invalid UTF-8 becomes U+FFFD.

        Returns:
            string `(N, None)`, UTF-8. Their concatenation is the text.
        """
        return self._split_into_words(tf.convert_to_tensor(texts, tf.string))

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Converts ids to bytes: the tokenized text, if it was UTF-8.

        Args:
            ids: int32 `(N, None)`.

        Returns:
            string `(N,)`; special tokens become their names. Ids that end within a
            character result in invalid UTF-8.

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
        return rows_in_one(split_rows(rows, per_text))

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def _split_into_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        unique, per_text = self._unique_words(texts)
        letters = tf.gather(_SINGLE_BYTES, tf.cast(unique.values, tf.int32))
        words = tf.strings.unsorted_segment_join(letters, unique.owners, unique.count)
        rows = tf.gather(words, unique.index)
        return split_rows(rows, per_text)

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
