"""The interface of all tokenizers, and character offsets of tokens.

An offset is a pair `(start, end)`: `text[start:end]` is the source of the token, in the
original text before normalization. A token that is only a part of a character has the
offsets of the whole character. A space that a tokenizer prepends is not part of the
original text: a token that consists only of this space has the offsets `(0, 0)`.

This module can be imported without TensorFlow.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

    Texts = tf.Tensor | np.ndarray | Sequence[str | bytes]


_SURROGATES = re.compile("[\ud800-\udfff]")


class TokenOffsets(NamedTuple):
    """The tokens of a text with their offsets.

    Attributes:
        ids: The token ids, as `tokenize` returns them.
        offsets: Start and end of each token in the text, in characters (code points).
    """

    ids: list[int]
    offsets: list[tuple[int, int]]


def encodable(texts: Sequence[str]) -> list[str]:
    """Replaces surrogates, which UTF-8 cannot encode, without changing lengths."""
    return [_SURROGATES.sub("\ufffd", text) for text in texts]


def in_characters(
    text: str, starts: np.ndarray, ends: np.ndarray
) -> list[tuple[int, int]]:
    """Converts byte offsets in a text to character offsets.

    Args:
        text: The text.
        starts: int64 `(T,)`. The start of each token in the text's UTF-8.
        ends: int64 `(T,)`. The end of each token in the text's UTF-8.

    Example:
    >>> in_characters("né!", np.array([0, 1, 2, 3]), np.array([1, 2, 3, 4]))
    [(0, 1), (1, 2), (1, 2), (2, 3)]
    """
    raw = np.frombuffer(text.encode("utf-8"), np.uint8)
    characters = np.concatenate([[0], np.cumsum((raw & 0xC0) != 0x80)])  # at each byte
    within = np.minimum(starts + 1, len(raw))
    first = np.where(starts < ends, characters[within] - 1, characters[starts])
    return list(zip(first.tolist(), characters[ends].tolist(), strict=True))


def offsets_from_sizes(text: str, sizes: np.ndarray) -> list[tuple[int, int]]:
    """Returns the offsets of tokens that partition the bytes of a text.

    Args:
        text: The text.
        sizes: int64 `(T,)`. The number of bytes of each token; the numbers add up to
            the text's size, or to one more if a space was prepended.
    """
    ends = np.cumsum(sizes) - (sizes.sum() - len(text.encode("utf-8")))
    return in_characters(text, np.maximum(ends - sizes, 0), np.maximum(ends, 0))


@dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """The id of the special token for each purpose; None if the tokenizer has none.

    Attributes:
        pad: The id that pads records; set even if the tokenizer has no padding token.
        unknown: The token that replaces text that no piece matches.
        begin: The token before a document (`[CLS]`, `<s>`, `<|endoftext|>`).
        end: The token after a document (`[SEP]`, `</s>`, `<|endoftext|>`).
        mask: The token that replaces a masked token.
        sentinels: The sentinels that replace spans in span corruption, in the order of
            the spans.
        stop: Further tokens that end a generated text.
    """

    pad: int
    unknown: int | None = None
    begin: int | None = None
    end: int | None = None
    mask: int | None = None
    sentinels: tuple[int, ...] = ()
    stop: tuple[int, ...] = ()

    @property
    def ends(self) -> tuple[int, ...]:
        """The ids of all tokens that end a generated text."""
        return self.stop if self.end is None else (self.end, *self.stop)

    @property
    def decoder_begin(self) -> int:
        """The first id that the decoder of an encoder-decoder reads, as T5's does."""
        return self.pad if self.begin is None else self.begin


class Tokenizer(Protocol):
    """Converts text to ids and back, as TensorFlow functions, also in a SavedModel."""

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces in the order of their ids, in readable form."""
        ...

    @property
    def special(self) -> SpecialIds:
        """The ids of the special tokens."""
        ...

    @property
    def ordinary_ids(self) -> np.ndarray:
        """All ids that are not special, reserved or sentinels: int32 (V',)."""
        ...

    @property
    def starts_word(self) -> np.ndarray:
        """True for pieces that begin a new word or are special, bool (V,)."""
        ...

    @property
    def word_prefix(self) -> str:
        """The prefix for a word that is tokenized alone: a space or the empty string.

        With `word_prefix` prepended, a word is tokenized to the same pieces as inside a
        sentence.
        """
        ...

    @property
    def vocabulary_size(self) -> int:
        """The number of pieces including special ones."""
        ...

    @property
    def chat_format(self) -> Any:
        """The `ChatFormat` of the tokenizer's chat template; None if it has none."""
        ...

    def tokenize(self, texts: "Texts") -> "tf.RaggedTensor":
        """Maps string (N,) to int32 (N, None); no special tokens are added."""
        ...

    def tokenize_with_offsets(self, texts: Sequence[str]) -> list[TokenOffsets]:
        """Returns the tokens of each text with their character offsets."""
        ...

    def words(self, texts: "Texts") -> "tf.RaggedTensor":
        """Maps string (N,) to string (N, None): the words for training a vocabulary."""
        ...

    def detokenize(self, ids: "tf.RaggedTensor") -> "tf.Tensor":
        """Maps int32 (N, None) to string (N,)."""
        ...
