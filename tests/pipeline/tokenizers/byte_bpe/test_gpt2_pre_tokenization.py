"""Words begin where GPT-2's regular expression begins them in the Rust library."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.pipeline.tokenizers.rust_byte_bpe import rust_words
from transbeam.pipeline.tokenizers.byte_bpe.gpt2_pre_tokenization import (
    split_into_words,
    unique_words,
)


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
def compiled(texts):
    return split_into_words(texts)


def words_of(texts):
    words = compiled(tf.constant(texts, tf.string, [len(texts)]))
    content = bytes(words.values.numpy())
    flat = [
        content[i : i + n] for i, n in zip(words.starts, words.lengths, strict=True)
    ]
    ends = np.cumsum(words.per_text)
    return [flat[end - n : end] for end, n in zip(ends, words.per_text, strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a", ["a"]),
        ("a b", ["a", " b"]),
        (" a", [" a"]),
        ("a  b", ["a", " ", " b"]),
        ("a \n b", ["a", " \n", " b"]),
        ("a\nb", ["a", "\n", "b"]),
        ("a\n\n\nb", ["a", "\n\n", "\n", "b"]),
        ("a  ", ["a", "  "]),
        ("  ", ["  "]),
        ("\u3000\xa0a", ["\u3000", "\xa0", "a"]),
        ("\xa0\u3000", ["\xa0\u3000"]),
        ("a1!", ["a", "1", "!"]),
        (" 1 !", [" 1", " !"]),
        ("é漢\u0301", ["é漢", "\u0301"]),
        ("it's", ["it", "'s"]),
        ("it 's", ["it", " '", "s"]),
        ("it\n's", ["it", "\n", "'s"]),
        ("'st 'll", ["'s", "t", " '", "ll"]),
        ("a'sb'll'vex", ["a", "'s", "b", "'ll", "'ve", "x"]),
        ("''s", ["''", "s"]),
        ("'S'l'r'", ["'", "S", "'", "l", "'", "r", "'"]),
        ("1't", ["1", "'t"]),
        ("a'", ["a", "'"]),
        ("a'l", ["a", "'", "l"]),
        ("a's\u3000\u3000b's ", ["a", "'s", "\u3000", "\u3000", "b", "'s", " "]),
    ],
)
def test_words_by_hand(text, expected):
    # Between other texts, which must not matter.
    rows = words_of([" x'", text, "'s  ", text])
    assert rows[1] == rows[3] == [word.encode() for word in expected]


def test_hostile_texts():
    assert words_of(HOSTILE_TEXTS) == [rust_words(text) for text in HOSTILE_TEXTS]


AWKWARD = (
    " \n\t\x0b\x85\xa0\u3000\u2028'sStrevlmdaA1\u0661!-"
    "é\u0301漢\U0001f600\x00\U00010400"
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.text(st.sampled_from(AWKWARD) | st.characters(exclude_categories=["Cs"])),
        max_size=5,
    )
)
def test_any_text(texts):
    assert words_of(texts) == [rust_words(text) for text in texts]


def unique_rows(texts):
    """The words of all texts by way of `unique_words`, and how many there are."""
    unique = unique_words(split_into_words(tf.constant(texts)))
    different = [b""] * int(unique.count)
    for value, owner in zip(unique.values.numpy(), unique.owners.numpy(), strict=True):
        different[owner] += bytes([value])
    return [different[i] for i in unique.index], different


@pytest.mark.parametrize("size", [1, 6, 7, 8, 9, 15, 16, 17, 23, 24, 25, 40])
def test_words_that_differ_in_one_byte_or_in_length_are_different(size):
    word = "abcdefghijklmnopqrstuvwxyz" * 2
    changed = [word[:i] + "X" + word[i + 1 : size] for i in range(size)]
    nul = ["\x00" * length for length in range(1, size + 1)]
    texts = [*changed, word[:size], word[: size - 1] or "q", *nul]
    rows, different = unique_rows(texts * 2)
    assert rows == [text.encode() for text in texts * 2]
    if size <= 24:
        assert len(different) == len(texts)


def test_a_word_and_the_same_with_a_nul_are_different():
    texts = ["!", "!\x00", "!\x00\x00", "!!!!!!!", "!!!!!!!\x00", "!!!!!!!!"]
    rows, different = unique_rows(texts)
    assert rows == [text.encode() for text in texts]
    assert len(different) == len(texts)
