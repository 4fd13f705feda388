"""The number of text bytes of each piece, for tokenizers in which it is constant."""

import re

import numpy as np

from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_tokenizer import ByteBPETokenizer
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_tokenizer import (
    SentencePieceTokenizer,
)

_SPACE = "▁"  # SentencePiece's space
_ONE_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def piece_bytes(tokenizer: Tokenizer) -> np.ndarray | None:
    """Returns piece sizes in bytes, int64 (V,), 0 if special; None for WordPiece.

    Example:
    >>> from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
    >>> pieces = [*ALPHABET, "Ġa", "Ġan", "<|endoftext|>"]
    >>> tokenizer = ByteBPETokenizer(pieces, [("Ġ", "a"), ("Ġa", "n")])
    >>> piece_bytes(tokenizer)[-4:]
    array([1, 2, 3, 0])
    """
    match tokenizer:
        case ByteBPETokenizer():
            length = len  # one letter of the alphabet per byte
        case SentencePieceTokenizer():
            length = _sentencepiece_bytes
        case _:
            return None
    table = np.zeros(tokenizer.vocabulary_size, np.int64)
    for token in tokenizer.ordinary_ids.tolist():
        table[token] = length(tokenizer.pieces[token])
    return table


def _sentencepiece_bytes(piece: str) -> int:
    return 1 if _ONE_BYTE.fullmatch(piece) else len(piece.replace(_SPACE, " ").encode())
