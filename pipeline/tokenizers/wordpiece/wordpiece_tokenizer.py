"""WordPiece as TensorFlow functions, for the data job, trainer and serving.

The ids are those of the Rust `tokenizers` library (`BertNormalizer`,
`BertPreTokenizer`, `WordPiece`), so a BERT vocabulary results in the same ids.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from transbeam.pipeline.tokenizers.base.graph_tokenizer import (
    RAGGED_IDS,
    TEXTS,
    AddedTokenTokenizer,
    Texts,
)
from transbeam.pipeline.tokenizers.base.interface import (
    SpecialIds,
    TokenOffsets,
)
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    flatten_rows,
    joined,
    prepend_token,
)
from transbeam.pipeline.tokenizers.base.vocabulary import (
    CONTINUATION,
    MASK,
    MAXIMUM_WORD_CHARACTERS,
    SPECIAL_PIECES,
    UNKNOWN,
    check_vocabulary,
    is_reserved,
    wordpiece_special_ids,
)
from transbeam.pipeline.tokenizers.wordpiece import bert_normalization

# The kernel counts bytes, BERT characters. No word of allowed length is longer than
# this, and words that are too long are replaced by one that is longer.
_MAXIMUM_WORD_BYTES = 4 * MAXIMUM_WORD_CHARACTERS
_TOO_LONG = "x" * (_MAXIMUM_WORD_BYTES + 1)


# Words after normalization, which replaces all other white space by spaces.
_WORD = re.compile(r"[^ \t\n\r]+")


def fast_wordpiece(
    pieces: Sequence[str], maximum_word_bytes: int = _MAXIMUM_WORD_BYTES
) -> tf_text.FastWordpieceTokenizer:
    """Returns tf-text's kernel, which splits words into the longest pieces.

    Args:
        pieces: The pieces in the order of their ids, including special ones.
        maximum_word_bytes: Words of more bytes become the unknown token.
    """
    return tf_text.FastWordpieceTokenizer(
        vocab=list(pieces),
        suffix_indicator=CONTINUATION,
        max_bytes_per_word=maximum_word_bytes,
        token_out_type=tf.int32,  # pyright: ignore[reportArgumentType]
        unknown_token=UNKNOWN,
        no_pretokenization=True,
    )


class WordPieceTokenizer(AddedTokenTokenizer):
    """Splits text into words and words into the longest pieces of a vocabulary.

    A SavedModel with this tokenizer needs only `tensorflow` and `tensorflow_text`. The
    result does not depend on the locale of the process. Invalid UTF-8 is dropped. Ids
    are decoded to words with one space between them.

    Each distinct string between spaces is normalized and looked up once per call, so
    calls with about a megabyte of text are the most efficient.

    Args:
        vocabulary: The pieces in the order of their ids, including special ones.
        lowercase: Whether to lowercase texts.
        strip_accents: Whether to drop combining marks. None: drop combining marks if
            `lowercase`.
        special: Ids of the special tokens; by default, they are found by the names of
            the pieces.
        whole_pieces: The added tokens of the vocabulary that match exactly.
        folded_pieces: The added tokens that match case-insensitively.

    Raises:
        ArtifactError: The vocabulary lacks a special piece or has an invalid piece.

    Example:
    >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##able", "!"]
    >>> tokenizer = WordPieceTokenizer(pieces)
    >>> tokenizer.tokenize(["Unable!", "able"]).to_list()
    [[5, 6, 7], [1]]
    >>> tokenizer.tokenize_with_offsets(["So Únable!"])
    [TokenOffsets(ids=[1, 5, 6, 7], offsets=[(0, 2), (3, 5), (5, 9), (9, 10)])]

    References:
        - [Devlin et al., 2018](https://arxiv.org/abs/1810.04805), section 3
        - [Song et al., 2021](https://arxiv.org/abs/2012.15524), the linear algorithm
    """

    word_prefix = ""

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        special: SpecialIds | None = None,
        whole_pieces: Sequence[str] = (),
        folded_pieces: Sequence[str] = (),
    ) -> None:
        super().__init__(name="wordpiece_tokenizer")
        check_vocabulary(vocabulary, where="vocabulary")
        self.vocabulary = tuple(vocabulary)
        self.lowercase = lowercase
        self.strip_accents = lowercase if strip_accents is None else strip_accents
        self.pieces = self.vocabulary
        self.special = special or wordpiece_special_ids(self.vocabulary)
        self.pad_id, self.unknown_id, self.cls_id, self.sep_id, self.mask_id = map(
            self.vocabulary.index, SPECIAL_PIECES
        )
        set_aside = {*SPECIAL_PIECES, *(self.pieces[i] for i in self.special.sentinels)}
        self.ordinary_ids = np.array(
            [
                i
                for i, piece in enumerate(self.pieces)
                if piece not in set_aside and not is_reserved(piece)
            ],
            np.int32,
        )
        self.starts_word = np.array(
            [not piece.startswith(CONTINUATION) for piece in self.pieces]
        )
        self._pieces = tf.constant(self.vocabulary)
        self._wordpiece = fast_wordpiece(self.vocabulary)
        self._match_whole(whole_pieces, folded_pieces)

    def tokenize_with_masks(self, texts: Texts) -> tf.RaggedTensor:
        """Tokenizes like `tokenize`, but a literal `[MASK]` becomes the mask token.

        `[MASK]` is matched in the original text, before normalization, and ends the
        previous word, as if surrounded by spaces.

        Args:
            texts: string `(N,)`, any bytes; invalid UTF-8 is dropped.

        Returns:
            int32 `(N, None)`; no special tokens are added.
        """
        return self._tokenize_with_masks(tf.convert_to_tensor(texts, tf.string))

    def _offsets_of(self, texts: Sequence[str]) -> list[TokenOffsets]:
        rows = self._ids_of(tf.constant(texts, tf.string)).to_list()
        alone = self._normalized(sorted(set().union(*texts)))
        return [
            TokenOffsets(
                ids,
                wordpiece_offsets(text, [self.pieces[i] for i in ids], UNKNOWN, alone),
            )
            for text, ids in zip(texts, rows, strict=True)
        ]

    def _normalized(self, characters: Sequence[str]) -> dict[str, str]:
        """Normalizes each character separately."""
        normalized = bert_normalization.normalize(
            tf.constant(characters, tf.string),
            lowercase=self.lowercase,
            strip_accents=self.strip_accents,
        )
        found = [text.decode() for text in normalized.numpy()]
        return dict(zip(characters, found, strict=True))

    def _ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        chunks = bert_normalization.split_at_spaces(texts)
        unique, index = tf.unique(chunks.values)
        return _spread(self._look_up(self._words(unique)), index, chunks)

    @tf.function(input_signature=[TEXTS], autograph=False)
    def _tokenize_with_masks(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._tokenize_around(texts, self._ids_with_masks)

    def _ids_with_masks(self, texts: tf.Tensor) -> tf.RaggedTensor:
        texts = tf.strings.regex_replace(texts, r"\[MASK\]", f" {MASK} ")
        chunks = bert_normalization.split_at_spaces(texts)
        unique, index = tf.unique(chunks.values)
        is_mask = tf.equal(unique, MASK)
        others = self._look_up(self._words(tf.where(is_mask, "", unique)))
        return _spread(prepend_token(others, self.mask_id, is_mask), index, chunks)

    @tf.function(input_signature=[TEXTS], autograph=False)
    def _split_into_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        chunks = bert_normalization.split_at_spaces(texts)
        unique, index = tf.unique(chunks.values)
        return _spread(self._words(unique), index, chunks)

    @tf.function(input_signature=[RAGGED_IDS], autograph=False)
    def _detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        # FastWordpieceTokenizer.detokenize kills the process on an unknown id.
        pieces = ids.with_values(tf.gather(self._pieces, ids.values))
        return tf.strings.regex_replace(joined(pieces, " "), f" {CONTINUATION}", "")

    def _words(self, chunks: tf.Tensor) -> tf.RaggedTensor:
        normalized = bert_normalization.normalize(
            chunks, lowercase=self.lowercase, strip_accents=self.strip_accents
        )
        return tf.strings.split(normalized)

    def _look_up(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        characters = tf.strings.length(words.values, unit="UTF8_CHAR")
        too_long = characters > MAXIMUM_WORD_CHARACTERS
        allowed = tf.where(too_long, _TOO_LONG, words.values)
        pieces = words.with_values(self._wordpiece.tokenize(allowed))
        return flatten_rows(pieces)


def _spread(
    unique_rows: tf.RaggedTensor, index: tf.Tensor, chunks: tf.RaggedTensor
) -> tf.RaggedTensor:
    """Expands the rows of distinct chunks to one row per text."""
    return flatten_rows(chunks.with_values(tf.gather(unique_rows, index)))


def wordpiece_offsets(
    text: str,
    pieces: Sequence[str],
    unknown: str,
    normalized: Mapping[str, str],
) -> list[tuple[int, int]]:
    """Returns the character offsets of WordPiece's pieces.

    BERT's normalization processes each character separately, so the output of each
    character is known, and words and pieces are ranges of the output.

    Args:
        text: The text.
        pieces: Its pieces.
        unknown: The piece that represents an unknown word.
        normalized: The normalized text of each character of `text`.

    Example:
    >>> alone = {"U": "u", "n": "n", "ï": "i", "!": " ! "}
    >>> wordpiece_offsets("Unï!", ["un", "##i", "!"], "[UNK]", alone)
    [(0, 2), (2, 3), (3, 4)]
    """
    parts = [normalized[character] for character in text]
    origin = np.repeat(np.arange(len(text)), [len(part) for part in parts])
    left = iter(pieces)
    found: list[tuple[int, int]] = []
    for word in _WORD.finditer("".join(parts)):
        for start, end in _within(word.start(), word.end(), left, unknown):
            found.append((int(origin[start]), int(origin[end - 1]) + 1))
    return found


def _within(
    start: int, end: int, pieces: Iterator[str], unknown: str
) -> Iterator[tuple[int, int]]:
    """Yields the start and end of each piece of a word, in normalized characters."""
    at = start
    while at < end:
        piece = next(pieces)
        if piece == unknown:
            yield at, end
            return
        size = len(piece if at == start else piece.removeprefix(CONTINUATION))
        yield at, at + size
        at += size
