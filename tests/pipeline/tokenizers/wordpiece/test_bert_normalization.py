"""Our words are those of the Rust library, for every code point there is."""

from itertools import product

import pytest

from tests.pipeline.tokenizers.rust_wordpiece import ALL_MODES, rust_words
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.unicode import unicode_classes
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)

SURROGATES = range(0xD800, 0xE000)

# Code points whose words cannot be equal to those of the Rust library, by name and
# with the reason. There is none: what its tables say was written down, and what it
# does not know of NFD is kept from ICU.
UNEQUAL: dict[str, str] = {}


def unequal(texts, lowercase, strip_accents):
    tokenizer = WordPieceTokenizer(
        SPECIAL_PIECES, lowercase=lowercase, strip_accents=strip_accents
    )
    found = []
    for start in range(0, len(texts), 100_000):
        block = texts[start : start + 100_000]
        ours = tokenizer.words(block).to_list()
        theirs = rust_words(block, lowercase=lowercase, strip_accents=strip_accents)
        assert len(ours) == len(theirs) == len(block)
        found += [
            text
            for text, our, their in zip(block, ours, theirs, strict=True)
            if our != [word.encode() for word in their]
        ]
    return found


def sandwiches(code_points):
    return [f"a{chr(c)}b" for c in code_points if c not in SURROGATES]


@pytest.mark.parametrize(
    ("lowercase", "strip_accents"),
    [  # the others for the hostile texts alone, and all of them for all code points
        (True, True),
        (False, False),
        pytest.param(True, False, marks=pytest.mark.thorough),
        pytest.param(False, True, marks=pytest.mark.thorough),
    ],
)
def test_every_code_point_of_the_basic_plane(lowercase, strip_accents):
    assert unequal(sandwiches(range(0x10000)), lowercase, strip_accents) == []


@pytest.mark.thorough(instead="test_every_code_point_of_the_basic_plane")
@pytest.mark.parametrize(("lowercase", "strip_accents"), ALL_MODES)
def test_every_code_point(lowercase, strip_accents):
    found = unequal(sandwiches(range(0x110000)), lowercase, strip_accents)
    assert found == list(UNEQUAL)


@pytest.mark.parametrize("lowercase", [True, False])
def test_pairs_of_marks_newer_than_the_rust_library(lowercase):
    newer = [
        chr(c)
        for first, last, _, _ in unicode_classes.NFD_EXEMPT
        for c in range(first, last + 1)
    ]
    # An ordinary mark, one that Rust does not strip, and a letter that decomposes.
    others = ["\u0301", "\u20dd", "\u09cb", "\u1eb7"]
    pairs = [f"a{x}{y}b" for x, y in product(newer + others, repeat=2)]
    assert len(pairs) > 20_000
    assert unequal(pairs, lowercase, strip_accents=True) == []


def test_a_word_ends_at_a_space_but_not_at_a_control_character():
    tokenizer = WordPieceTokenizer(SPECIAL_PIECES)
    texts = [b"a\x0bb\x0cc\x1fd\x00e", "a\u2028b\u3000c", b"\xc3\x0b\xa9x"]
    assert tokenizer.words(texts).to_list() == [[b"abcde"], [b"a", b"b", b"c"], [b"x"]]


def test_words_are_lower_case_without_marks_and_cut_at_punctuation():
    text = "Don't ÉLÈVE! İ ΣΑΣ 漢字 ①"
    words = WordPieceTokenizer(SPECIAL_PIECES).words([text])[0].numpy()
    assert b" ".join(words).decode() == "don ' t eleve ! i σασ 漢 字 ①"
    cased = WordPieceTokenizer(SPECIAL_PIECES, lowercase=False).words([text])[0].numpy()
    assert b" ".join(cased).decode() == "Don ' t ÉLÈVE ! İ ΣΑΣ 漢 字 ①"
