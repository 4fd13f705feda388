"""Vocabulary and rules of a WordPiece tokenizer. Needs no TensorFlow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from transbeam.pipeline.tokenizers.base.file_reading import decode_utf8
from transbeam.pipeline.tokenizers.base.framing import PLAIN, Framing
from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.pipeline.tokenizers.base.vocabulary import (
    check_vocabulary,
    wordpiece_special_ids,
)

if TYPE_CHECKING:
    from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
        WordPieceTokenizer,
    )

VOCABULARY_FILE = "vocab.txt"


@dataclass(frozen=True, kw_only=True)
class WordPieceModel:
    """A BERT vocabulary and the options of text normalization.

    Attributes:
        pieces: The pieces in the order of their ids.
        lowercase: Whether to lowercase texts.
        strip_accents: Whether to drop combining marks.
        framing: The tokenizer's rules besides the vocabulary, such as begin and end
            tokens.
    """

    kind: ClassVar[str] = "wordpiece"
    file_names: ClassVar[tuple[str, ...]] = (VOCABULARY_FILE,)
    option_types: ClassVar[dict[str, type]] = {"lowercase": bool, "strip_accents": bool}

    pieces: tuple[str, ...]
    lowercase: bool
    strip_accents: bool
    framing: Framing = PLAIN

    @property
    def special(self) -> SpecialIds:
        """The ids of the special tokens."""
        return self.framing.apply(wordpiece_special_ids(self.pieces))

    def files(self) -> dict[str, bytes]:
        """Returns the vocabulary in BERT's format, one piece per line."""
        content = "".join(f"{piece}\n" for piece in self.pieces).encode()
        return {VOCABULARY_FILE: content}

    @staticmethod
    def parse_files(files: Mapping[str, bytes], where: str) -> dict[str, Any]:
        """Parses the result of `files` into an argument of the constructor.

        Raises:
            ArtifactError: The vocabulary is not UTF-8.
        """
        text = decode_utf8(files[VOCABULARY_FILE], f"{where}/{VOCABULARY_FILE}")
        # Not `splitlines`: it also splits at U+2028, U+0085 and others.
        return {"pieces": tuple(text.split("\n")[:-1])}

    def check(self, where: str) -> None:
        """Raises an ArtifactError if the vocabulary cannot be used."""
        check_vocabulary(self.pieces, where=where)

    def build(self) -> "WordPieceTokenizer":
        """Builds the tokenizer."""
        from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
            WordPieceTokenizer,
        )

        return WordPieceTokenizer(
            self.pieces,
            lowercase=self.lowercase,
            strip_accents=self.strip_accents,
            special=self.special,
            whole_pieces=self.framing.whole_pieces,
            folded_pieces=self.framing.folded_pieces,
        )
