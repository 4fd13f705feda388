"""`tokenizer`: how text becomes ids."""

from dataclasses import dataclass
from typing import Literal

from configs.fields import option


@dataclass(frozen=True, kw_only=True)
class WordPieceConfig:
    """WordPiece as in BERT, learned from the training split of the corpus."""

    kind: Literal["wordpiece"] = "wordpiece"
    vocabulary_size: int = option(
        "Number of pieces, special tokens included.", default=8192, minimum=32
    )
    lowercase: bool = option("Fold upper case away.", default=True)
    strip_accents: bool | None = option(
        "Drop combining marks. Left out: the same as `lowercase`, as BERT does.",
        default=None,
    )
    maximum_alphabet: int = option(
        "At most this many single characters, the most frequent first.",
        default=1000,
        minimum=1,
    )
