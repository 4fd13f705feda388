"""What every tokenizer can do, whatever its kind. Needs no TensorFlow to import."""

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
    """The ids of the special pieces by what they are for; None: there is none.

    Attributes:
        pad: Fills records; also where a family has no piece of its own for it.
        unknown: Stands for what has no piece.
        begin: Before a document (`[CLS]`, `<s>`, `<|endoftext|>`).
        end: After a document (`[SEP]`, `</s>`, `<|endoftext|>`).
        mask: Hides a token.
        sentinels: Stand for spans that were cut out, the first span's first.
        stop: Further pieces that end a written text.
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
        """All pieces that end a written text."""
        return self.stop if self.end is None else (self.end, *self.stop)


class Tokenizer(Protocol):
    """Text to ids and back, as a TensorFlow function; also inside a SavedModel."""

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces in the order of their ids, as people read them."""
        ...

    @property
    def special(self) -> SpecialIds:
        """The ids of the special pieces."""
        ...

    @property
    def ordinary_ids(self) -> np.ndarray:
        """All ids that are not special, reserved or sentinels: int32 (V',)."""
        ...

    @property
    def starts_word(self) -> np.ndarray:
        """Whether a piece begins a new word, or is special: bool (V,)."""
        ...

    @property
    def word_prefix(self) -> str:
        """What to put before a word that is tokenized alone, a space or nothing.

        With it the word becomes the pieces it is inside a sentence.
        """
        ...

    @property
    def vocabulary_size(self) -> int:
        """Number of pieces, special ones included."""
        ...

    def tokenize(self, texts: "Texts") -> "tf.RaggedTensor":
        """String (N,) to int32 (N, None); no special pieces are added."""
        ...

    def tokenize_with_offsets(self, texts: Sequence[str]) -> "list[TokenOffsets]":
        """The tokens of each text with the characters of it that they stand for."""
        ...

    def words(self, texts: "Texts") -> "tf.RaggedTensor":
        """String (N,) to string (N, None): what a vocabulary is learned from."""
        ...

    def detokenize(self, ids: "tf.RaggedTensor") -> "tf.Tensor":
        """int32 (N, None) to string (N,)."""
        ...
