"""The tests' tokenizer with all the special pieces language modelling can ask for."""

from dataclasses import replace
from typing import Any

import numpy as np

from tests.pipeline.objectives.word_tokenizer import CLS, PAD, SEP, UNK, WordTokenizer
from transbeam.pipeline.tokenizers.base.interface import SpecialIds

MASK = 4
SENTINELS = tuple(range(5, 45))
FIRST = 45  # the first ordinary piece
SPECIAL = SpecialIds(
    pad=PAD, unknown=UNK, begin=CLS, end=SEP, mask=MASK, sentinels=SENTINELS
)


def language_tokenizer(pieces: str, **special: Any) -> WordTokenizer:
    """A tokenizer of words; keywords replace special pieces, None leaves one out."""
    sentinels = " ".join(f"<{i}>" for i in range(len(SENTINELS)))
    tokenizer = WordTokenizer(
        f"[MASK] {sentinels} {pieces}", replace(SPECIAL, **special)
    )
    tokenizer.ordinary_ids = np.arange(FIRST, len(tokenizer.pieces), dtype=np.int32)
    return tokenizer


# Words a b c … and w0 w1 …, and pieces +a +b … that go on a word.
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = language_tokenizer(
    " ".join([*LETTERS, *(f"+{c}" for c in LETTERS), *(f"w{i}" for i in range(500))])
)


def random_texts(count: int, mean: float, seed: int = 0, pieces: int = 1) -> list[str]:
    """Texts of random words, each of up to `pieces` pieces."""
    random = np.random.default_rng(seed)

    def word() -> str:
        goes_on = random.integers(0, pieces) if pieces > 1 else 0
        first = f"w{random.integers(500)}"
        return first + "".join(
            f"+{LETTERS[random.integers(26)]}" for _ in range(goes_on)
        )

    sizes = random.geometric(1 / mean, count)
    return [" ".join(word() for _ in range(size)) for size in sizes]
