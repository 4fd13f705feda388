"""The vocabularies and rules of all kinds of tokenizers."""

from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import (
    WordPieceModel,
)

TokenizerModel = WordPieceModel | ByteBPEModel | SentencePieceModel
