"""Letters that are others without their marks are counted, accents are not."""

import unicodedata

import numpy as np
import pytest

from transbeam.pipeline.tokenizers.analysis.vocabulary_report import (
    count_needed_marks,
    loses_essential_mark,
    report_vocabulary,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.mark.parametrize(
    ("text", "script", "number"),
    [
        ("ที่นี่", "thai", 4),  # two vowels, two tones
        ("ខ្មែរ", "khmer", 1),
        ("हिन्दी", "devanagari", 1),
        ("がぎ", "hiragana", 2),
        ("か\u3099", "hiragana", 1),
        ("ドイツ", "katakana", 1),
        ("мой", "cyrillic", 1),
    ],
)
def test_by_script(text: str, script: str, number: int) -> None:
    counts = count_needed_marks([text.encode(), b"ascii"])
    assert counts == {"": len(text) + 5, script: number}


@pytest.mark.parametrize("text", ["naïve Čapek", "Ἀθῆναι", "שָׁלוֹם", "한국어", "漢字"])
def test_accents_and_points_that_are_left_out_anyway(text: str) -> None:
    assert count_needed_marks([text.encode()]) == {"": len(text)}


def test_what_is_counted_is_what_stripping_changes() -> None:
    for code_point in np.flatnonzero(loses_essential_mark()).tolist():
        parts = unicodedata.normalize("NFD", chr(code_point))
        assert any(unicodedata.category(part) == "Mn" for part in parts)


@pytest.mark.parametrize("strip_accents", [True, False])
def test_the_report_says_so(strip_accents: bool) -> None:
    text = "ที่นี่"
    letters = sorted({*text})
    pieces = [*SPECIAL, *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = WordPieceTokenizer(pieces, lowercase=True, strip_accents=strip_accents)
    report = report_vocabulary(tokenizer, [np.array([text.encode()], object)])
    assert report.stripped_characters == (4 if strip_accents else 0)
    assert report.as_json()["character_coverage"] == (1 / 3 if strip_accents else 1.0)
    assert ("strip_accents=false" in report.describe()) == strip_accents
