"""Model and rules of a SentencePiece tokenizer. Needs no TensorFlow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from transbeam.pipeline.tokenizers.base.framing import PLAIN, Framing
from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_proto import (
    SentencePieceProto,
)

if TYPE_CHECKING:
    from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_tokenizer import (
        SentencePieceTokenizer,
    )

MODEL_FILE = "spiece.model"


@dataclass(frozen=True, kw_only=True)
class SentencePieceModel(SentencePieceProto):
    """A SentencePiece model and the rules with which Transbeam applies it.

    Attributes:
        framing: The tokenizer's rules besides the vocabulary, such as begin and end
            tokens.
    """

    kind: ClassVar[str] = "sentencepiece"
    file_names: ClassVar[tuple[str, ...]] = (MODEL_FILE,)
    option_types: ClassVar[dict[str, type]] = {"num_sentinels": int}

    framing: Framing = PLAIN

    @property
    def special(self) -> SpecialIds:
        """The ids of the special tokens, after the rules of `framing` are applied."""
        return self.framing.apply(super().special)

    def files(self) -> dict[str, bytes]:
        """Returns the model file of SentencePiece."""
        return {MODEL_FILE: self.proto}

    @staticmethod
    def parse_files(files: Mapping[str, bytes], where: str) -> dict[str, Any]:
        """Returns the file from `files` as an argument of the constructor."""
        return {"proto": files[MODEL_FILE]}

    def build(self) -> "SentencePieceTokenizer":
        """Builds the tokenizer."""
        from transbeam.pipeline.tokenizers.sentencepiece import sentencepiece_tokenizer

        return sentencepiece_tokenizer.SentencePieceTokenizer(
            self.proto,
            num_sentinels=self.num_sentinels,
            special=self.special,
            whole_pieces=self.framing.whole_pieces,
        )
