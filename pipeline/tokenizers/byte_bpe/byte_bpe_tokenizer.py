"""Byte-level BPE as TensorFlow functions, for the data job, trainer and serving.

The ids are those of the Rust `tokenizers` library (`ByteLevel`, `BPE`), so the
vocabulary and merges of GPT-2 or RoBERTa result in the same ids.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import tensorflow as tf

from transbeam.pipeline.tokenizers.base.graph_tokenizer import (
    RAGGED_IDS,
    TEXTS,
    AddedTokenTokenizer,
)
from transbeam.pipeline.tokenizers.base.interface import (
    SpecialIds,
    TokenOffsets,
    offsets_from_sizes,
)
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    flatten_rows,
    joined,
    split_rows,
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

_SINGLE_BYTES = [bytes([byte]) for byte in range(256)]


class ByteBPETokenizer(AddedTokenTokenizer):
    """Splits text into words as GPT-2 does, and words into pieces by merging bytes.

    A SavedModel with this tokenizer needs only TensorFlow: all its ops are core ops,
    which every TF Serving has. Invalid UTF-8 becomes U+FFFD, as in
    `bytes.decode("utf-8", "replace")`. The concatenation of the words is the text. Ids
    that end within a character are decoded to invalid UTF-8.

    The space before a word belongs to the word's first token: the slices
    `text[start:end]` of all tokens concatenate to the text, unless tokens share a
    character.

    Each distinct word is merged once per call, so calls with a megabyte of text or more
    are the most efficient. Time and memory are linear in the text, regardless of the
    lengths of words.

    Args:
        vocabulary: The pieces in the order of their ids, in GPT-2's alphabet of bytes,
            special pieces included.
        merges: The pairs of pieces to merge, by rank.
        special_pieces: The pieces that do not represent bytes of a text.
        add_prefix_space: Whether to prepend a space to texts that do not begin with a
            space, so that the first word is tokenized like the other words.
        special: Ids of the special tokens; by default, they are found by the names of
            the pieces.
        whole_pieces: The added tokens of the vocabulary.

    Raises:
        ArtifactError: A piece is invalid or duplicated; or a byte, a special piece or a
            piece of a merge is missing; or a text can be tokenized to a special piece.

    Example:
    >>> from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
    >>> pieces = [*ALPHABET, "Ġa", "Ġan", "<|endoftext|>"]
    >>> tokenizer = ByteBPETokenizer(pieces, [("Ġ", "a"), ("Ġa", "n")])
    >>> tokenizer.tokenize(["a an"]).to_list()
    [[97, 257]]
    >>> tokenizer.tokenize_with_offsets(["é a"])
    [TokenOffsets(ids=[195, 169, 256], offsets=[(0, 1), (0, 1), (1, 3)])]

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
        self._special = special
        self._match_whole(whole_pieces)
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
    def special(self) -> SpecialIds:
        """The special ids: the argument, or those of GPT-2's or RoBERTa's piece names.

        Raises:
            ValueError: The vocabulary has neither GPT-2's nor RoBERTa's special tokens.
        """
        return self._special_ids

    @cached_property
    def _special_ids(self) -> SpecialIds:
        return self._special or byte_bpe_special_ids(self.pieces)

    @property
    def word_prefix(self) -> str:
        """The prefix with which a single word has the same pieces as in a sentence."""
        return "" if self.add_prefix_space else " "

    def _offsets_of(self, texts: Sequence[str]) -> list[TokenOffsets]:
        rows = self._ids_of(tf.constant(texts, tf.string)).to_list()
        return [
            TokenOffsets(ids, offsets_from_sizes(text, self._sizes[ids]))
            for text, ids in zip(texts, rows, strict=True)
        ]

    def _ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        unique, per_text = self._unique_words(texts)
        ids = self._merger(unique.values, unique.owners, unique.count)
        rows = tf.gather(ids, unique.index)
        return flatten_rows(split_rows(rows, per_text))

    @tf.function(input_signature=[TEXTS], autograph=False)
    def _split_into_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        unique, per_text = self._unique_words(texts)
        letters = tf.gather(_SINGLE_BYTES, tf.cast(unique.values, tf.int32))
        words = tf.strings.unsorted_segment_join(letters, unique.owners, unique.count)
        rows = tf.gather(words, unique.index)
        return split_rows(rows, per_text)

    @tf.function(input_signature=[RAGGED_IDS], autograph=False)
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
