"""Shingles and signatures: the right sets, the right probabilities, the same bits."""

import itertools
import unicodedata
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.near_duplicates import brute_force, pairs_of_similarity
from transbeam.configs.schema.data import NearDuplicatesConfig
from transbeam.pipeline.deduplication.minhash import (
    BLOCK_CHARACTERS,
    shingles,
    signatures,
)


def words_of(text: str) -> list[str]:
    """The rule for words, character by character."""
    words, current = [], ""
    for character in unicodedata.normalize("NFKC", text).casefold():
        unspaced = "\u4e00" <= character <= "\u9fff"
        if unspaced or unicodedata.category(character)[0] not in "LMN":
            words += [current, character if unspaced else ""]
            current = ""
        else:
            current += character
    return [word for word in [*words, current] if word]


def shingle_set(text: str, size: int) -> frozenset[tuple[str, ...]]:
    words = words_of(text)
    if not words:
        return frozenset({("no words", text)})
    return frozenset(
        tuple(words[i : i + size]) for i in range(max(len(words) - size + 1, 1))
    )


def jaccard(left: frozenset, right: frozenset) -> Fraction:
    return Fraction(len(left & right), len(left | right))


def similarity(left: str, right: str, shingle_words: int) -> float:
    found = shingles([left, right], shingle_words)
    a, b = np.split(found.hashes, found.counts[:1])
    return len(np.intersect1d(a, b)) / len(np.union1d(a, b))


texts = st.text(st.sampled_from("ab AB1.,'\n\0éÉßﬁ中文\u0301")) | st.text()


@given(texts, texts, st.integers(1, 4))
def test_shingles_are_those_of_a_plain_implementation(left, right, size) -> None:
    expected = jaccard(shingle_set(left, size), shingle_set(right, size))
    assert similarity(left, right, size) == float(expected)


@pytest.mark.parametrize(
    ("left", "right", "shingle_words", "expected"),
    [
        # ab bc cd de ef, and eg in place of ef: 4 of 6
        ("a b c d e f", "a b c d e g", 2, 4 / 6),
        # a b c d, and b a c d: cd of ab bc cd, ba ac cd
        ("a b c d", "b a c d", 2, 1 / 5),
        # words alone: the order does not matter
        ("a b c d", "d c b a", 1, 1),
        # a shingle that repeats counts once: aa, and aa ab
        ("a a a a", "a a b", 2, 1 / 2),
        # fewer words than a shingle: one shingle of what is there
        ("a b", "A; b.", 5, 1),
        ("a b", "a b c", 5, 0),
        # words do not run into each other, nor documents
        ("ab c", "a bc", 2, 0),
        ("“Hello”, it’s", '"hello" it\'s', 1, 1),
        ("ｆｕｌｌ ﬁne", "FULL fine", 2, 1),
        ("cafe\u0301", "caf\u00e9", 1, 1),
        # each Han character is a word: 中文, 文字, and 文书
        ("中文字", "中文书", 2, 1 / 3),
        # without a word, only the very same text is the same
        ("!!!", "!!!", 5, 1),
        ("!!!", "???", 5, 0),
        ("", "???", 5, 0),
    ],
)
def test_similarity_by_hand(left, right, shingle_words, expected) -> None:
    assert similarity(left, right, shingle_words) == expected
    config = NearDuplicatesConfig(shingle_words=shingle_words)
    pairs, similarities = brute_force([left, right], config)
    assert similarities.tolist() == [expected] * len(pairs)
    equal = np.equal(*signatures([left, right], config))
    if expected in (0, 1):
        assert equal.all() == equal.any() == (expected == 1)


@given(st.lists(texts, max_size=8))
def test_company_does_not_matter(documents) -> None:
    config = NearDuplicatesConfig(num_hashes=16, shingle_words=2)
    together = signatures(documents, config)
    assert together.shape == (len(documents), 16)
    assert together.dtype == np.uint32
    for row, text in zip(together, documents, strict=True):
        np.testing.assert_array_equal(row, signatures([text], config)[0])


def test_blocks_do_not_matter() -> None:
    config = NearDuplicatesConfig(num_hashes=16)
    numbers = [" ".join(map(str, range(n, n + 6000))) for n in range(0, 90_000, 6000)]
    long = " ".join(numbers)
    assert len(numbers[-1]) < BLOCK_CHARACTERS < len(long)
    together = signatures([*numbers, long, *numbers], config)
    np.testing.assert_array_equal(together[:15], together[16:])
    # Only the shingles across the cuts can be smaller still.
    smallest = together[:15].min(axis=0)
    across = [
        f"{n - 4 + i} {n - 3 + i} {n - 2 + i} {n - 1 + i} {n + i}"
        for n in range(6000, 90_000, 6000)
        for i in range(4)
    ]
    between = signatures(across, config).min(axis=0)
    np.testing.assert_array_equal(together[15], np.minimum(smallest, between))


def test_signatures_never_change() -> None:
    # They are kept in files and compared with those that other processes made.
    rows = signatures(
        ["The quick brown fox jumps over the lazy dog.", "?"],
        NearDuplicatesConfig(num_hashes=16),
    )
    assert rows[:, :4].tolist() == [
        [579903420, 871328432, 2224096286, 90654780],
        [2637058107, 3729100843, 1604676365, 638655235],
    ]


def test_estimates_are_unbiased_and_as_exact_as_promised() -> None:
    config = NearDuplicatesConfig()
    for wanted in (0.2, 0.5, 0.8):
        documents, exact = pairs_of_similarity(wanted, 400, 5, size=100)
        rows = signatures(documents, config)
        estimates = np.mean(rows[::2] == rows[1::2], axis=1)
        deviation = np.sqrt(exact * (1 - exact) / config.num_hashes)
        assert abs(estimates.mean() - exact) < 4 * deviation / np.sqrt(400)
        # The variance of 400 samples is itself known to 1 / sqrt(200).
        assert abs(estimates.std() / deviation - 1) < 4 * 0.5 / np.sqrt(200)


def test_values_of_a_signature_are_independent() -> None:
    # Else bands would not follow their curve. Two values agree in both documents as
    # often as one does, squared.
    documents, exact = pairs_of_similarity(0.3, 400, 5, size=30)
    rows = signatures(documents, NearDuplicatesConfig())
    equal = rows[::2] == rows[1::2]
    both = equal[:, ::2] & equal[:, 1::2]
    spread = np.sqrt(exact**2 * (1 - exact**2) / both.size)
    assert abs(both.mean() - exact**2) < 5 * spread


@given(st.lists(st.text("ab ", max_size=12), min_size=1, max_size=8))
def test_brute_force_is_that_of_sets(documents) -> None:
    config = NearDuplicatesConfig(shingle_words=2)
    sets = [shingle_set(text, 2) for text in documents]
    expected = {
        (i, j): float(jaccard(sets[i], sets[j]))
        for i, j in itertools.combinations(range(len(documents)), 2)
        if sets[i] & sets[j]
    }
    pairs, similarities = brute_force(documents, config)
    found = dict(zip(map(tuple, pairs.tolist()), similarities.tolist(), strict=True))
    assert found == expected
