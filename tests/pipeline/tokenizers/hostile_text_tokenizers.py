"""Tokenizers that cut the hostile texts into many different pieces."""

import ast
import sysconfig
from collections import Counter
from functools import cache
from pathlib import Path

from tests.data.hostile_strings import HOSTILE_BYTES, HOSTILE_TEXTS
from tests.pipeline.tokenizers.rust_wordpiece import ALL_MODES, rust_words
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_tokenizer import ByteBPETokenizer
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.training.hf_trainer import learn_byte_bpe
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)

HOSTILE = [text.encode() for text in HOSTILE_TEXTS] + HOSTILE_BYTES
HOSTILE_DECODED = [text.decode("utf-8", "replace") for text in HOSTILE]


@cache
def wordpiece_vocabulary() -> list[str]:
    """Pieces for most of the words of the hostile texts, so few of them are [UNK]."""
    pieces = dict.fromkeys(SPECIAL_PIECES)
    for lowercase, strip_accents in ALL_MODES:
        for row in rust_words(
            HOSTILE_DECODED, lowercase=lowercase, strip_accents=strip_accents
        ):
            for word in row:
                pieces |= dict.fromkeys([word[:1], word[:3]])
                pieces |= dict.fromkeys(f"##{character}" for character in word)
                pieces |= dict.fromkeys(f"##{word[i : i + 2]}" for i in range(2, 9, 3))
    pieces.pop("##", None)
    return list(pieces)


@cache
def wordpiece(lowercase: bool, strip_accents: bool) -> WordPieceTokenizer:
    return WordPieceTokenizer(
        wordpiece_vocabulary(), lowercase=lowercase, strip_accents=strip_accents
    )


@cache
def docstrings() -> list[str]:
    texts = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("[a-c]*.py")):
        texts.extend(
            ast.get_docstring(node, clean=False) or ""
            for node in ast.walk(ast.parse(path.read_bytes()))
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        )
    return texts


@cache
def learned_byte_bpe() -> tuple[list[str], list[tuple[str, str]]]:
    """A vocabulary of 1500 pieces, and its merges."""
    splitter = ByteBPETokenizer(ALPHABET, [], special_pieces=[])
    words = splitter.words([*docstrings(), *HOSTILE_TEXTS * 2]).flat_values.numpy()
    return learn_byte_bpe(Counter(words.tolist()), 1500)


@cache
def byte_bpe(add_prefix_space: bool = False) -> ByteBPETokenizer:
    return ByteBPETokenizer(*learned_byte_bpe(), add_prefix_space=add_prefix_space)
