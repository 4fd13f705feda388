"""Classes of tokens: each piece in one class, by frequency and by its characters."""

from typing import Any

import numpy as np
import pytest

from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_tokenizer import ByteBPETokenizer
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.trainer.analysis.heads.token_classes import (
    TOKEN_CLASSES,
    classify_pieces,
)

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES += ["the", "cat", ",", "##.", "##s", "never"]


def names(classes: np.ndarray, piece: Any) -> set[str]:
    return {TOKEN_CLASSES[column] for column in np.flatnonzero(classes[piece])}


def test_word_pieces():
    ids = np.array([2, 5, 5, 5, 6, 6, 7, 8, 9, 1, 3], np.int32)
    classes = classify_pieces(WordPieceTokenizer(PIECES), [{"token_ids": ids}], 0.4)
    assert classes.shape == (len(PIECES), len(TOKEN_CLASSES))
    found = {PIECES[piece]: names(classes, piece) for piece in range(len(PIECES))}
    assert found == {
        "[PAD]": set(),
        "[UNK]": {"special"},
        "[CLS]": {"special", "begin"},
        "[SEP]": {"special", "end"},
        "[MASK]": set(),
        "the": {"content"},
        # Of 6 words' tokens, 40% are reached with those of "cat".
        "cat": {"rare"},
        ",": {"punctuation"},
        "##.": {"punctuation"},
        "##s": {"rare"},
        "never": set(),
    }


def test_bytes_of_punctuation():
    pieces = [*ALPHABET, "Ġ,", "âĢĶ", "<|endoftext|>"]  # a dash's three bytes
    merges = [("Ġ", ","), ("â", "Ģ"), ("âĢ", "Ķ")]
    pieces.insert(-2, "âĢ")
    tokenizer = ByteBPETokenizer(pieces, merges)
    ids = np.arange(len(pieces) - 4, len(pieces), dtype=np.int32)
    classes = classify_pieces(tokenizer, [{"decoder_token_ids": ids}])
    found = {pieces[piece]: names(classes, piece) for piece in ids}
    assert found == {
        "Ġ,": {"punctuation"},
        "âĢ": {"rare"},  # a part of a character
        "âĢĶ": {"punctuation"},
        "<|endoftext|>": {"special", "begin", "end"},
    }


@pytest.mark.parametrize("rows", [[], [{"image": np.zeros((2, 2, 3), np.uint8)}]])
def test_no_tokens(rows):
    assert not classify_pieces(WordPieceTokenizer(PIECES), rows).any()
