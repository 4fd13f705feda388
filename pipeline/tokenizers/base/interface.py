"""The interface of all tokenizers. Can be imported without TensorFlow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

    from transbeam.pipeline.tokenizers.base.offsets import TokenOffsets

    Texts = tf.Tensor | np.ndarray | Sequence[str | bytes]


@dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """The ids of the special tokens by purpose; None if there is none.

    Attributes:
        pad: The padding of records; set even if the tokenizer has no padding token.
        unknown: Replaces text without a piece.
        begin: Before a document (`[CLS]`, `<s>`, `<|endoftext|>`).
        end: After a document (`[SEP]`, `</s>`, `<|endoftext|>`).
        mask: Replaces a masked token.
        sentinels: Replace spans in span corruption, in the order of the spans.
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
        """All tokens that end a generated text."""
        return self.stop if self.end is None else (self.end, *self.stop)


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
        """The prefix for a word that is tokenized alone, a space or nothing.

        With it the word has the same pieces as inside a sentence.
        """
        ...

    @property
    def vocabulary_size(self) -> int:
        """The number of pieces including special ones."""
        ...

    def tokenize(self, texts: "Texts") -> "tf.RaggedTensor":
        """Maps string (N,) to int32 (N, None); no special tokens are added."""
        ...

    def tokenize_with_offsets(self, texts: Sequence[str]) -> "list[TokenOffsets]":
        """Returns the tokens of each text with their character offsets."""
        ...

    def words(self, texts: "Texts") -> "tf.RaggedTensor":
        """Maps string (N,) to string (N, None): the words for training a vocabulary."""
        ...

    def detokenize(self, ids: "tf.RaggedTensor") -> "tf.Tensor":
        """Maps int32 (N, None) to string (N,)."""
        ...
