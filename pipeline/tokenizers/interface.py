"""What every tokenizer can do, whatever its kind. Needs no TensorFlow to import."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf


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
    """

    pad: int
    unknown: int | None = None
    begin: int | None = None
    end: int | None = None
    mask: int | None = None
    sentinels: tuple[int, ...] = ()


class Tokenizer(Protocol):
    """Text to ids and back, as a TensorFlow function; also inside a SavedModel.

    Attributes:
        pieces: The pieces in the order of their ids, as people read them.
        special: The ids of the special pieces.
        ordinary_ids: int32 (V',). All ids that are not special or reserved.
        starts_word: bool (V,). Whether a piece begins a new word.
    """

    pieces: tuple[str, ...]
    special: SpecialIds
    ordinary_ids: np.ndarray
    starts_word: np.ndarray

    @property
    def vocabulary_size(self) -> int:
        """Number of pieces, special ones included."""
        ...

    def tokenize(self, texts: "tf.Tensor | Sequence[str | bytes]") -> "tf.RaggedTensor":
        """string (N,) to int32 (N, None); no special pieces are added."""
        ...

    def detokenize(self, ids: "tf.RaggedTensor") -> "tf.Tensor":
        """int32 (N, None) to string (N,)."""
        ...
