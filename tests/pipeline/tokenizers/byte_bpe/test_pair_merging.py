"""Many pairs at once give what a queue gives, whatever the merges."""

import random
from itertools import pairwise

import pytest
import tensorflow as tf

from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.byte_bpe.pair_merging import PairMerger


def by_queue(word, merges):
    """The definition: the pair of the lowest rank is joined, the leftmost first."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    pieces = list(word)
    while True:
        pairs = [
            (ranks[pair], i) for i, pair in enumerate(pairwise(pieces)) if pair in ranks
        ]
        if not pairs:
            return pieces
        _, i = min(pairs)
        pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]


def merged(words, merges):
    made = dict.fromkeys(left + right for left, right in merges)
    vocabulary = [*ALPHABET, *(piece for piece in made if piece not in ALPHABET)]
    values = "".join(words).encode()
    owners = [i for i, word in enumerate(words) for _ in word]
    rows = PairMerger(vocabulary, merges)(
        tf.constant(list(values), tf.uint8, [len(values)]),
        tf.constant(owners, tf.int32, [len(values)]),
        len(words),
    )
    return [[vocabulary[i] for i in row] for row in rows.to_list()]


@pytest.mark.parametrize(
    ("word", "merges", "expected"),
    [
        ("abc", [("b", "c"), ("a", "b")], "a bc"),
        ("abc", [("a", "b"), ("b", "c")], "ab c"),
        ("aaaaa", [("a", "a")], "aa aa a"),
        ("aaaaa", [("a", "a"), ("aa", "a")], "aa aaa"),
        # What follows b grows from far away, and then takes it.
        ("abcde", [("d", "e"), ("c", "de"), ("b", "cde"), ("a", "b")], "a bcde"),
        ("abcdx", [("d", "e"), ("c", "de"), ("b", "cde"), ("a", "b")], "ab c d x"),
        # ... and the same to the left.
        ("edcba", [("e", "d"), ("ed", "c"), ("edc", "b"), ("b", "a")], "edcb a"),
        # The last two pq are there first, but the first two are the leftmost pair.
        (
            "zpqpqpqwz",
            [("w", "z"), ("wz", "p"), ("p", "q"), ("pq", "pq")],
            "z pqpq pq wz",
        ),
        # Two ways to make a piece, one of them later than what it is part of.
        ("abcab", [("b", "c"), ("a", "bc"), ("abc", "ab"), ("a", "b")], "abcab"),
        ("abab", [("ab", "a"), ("a", "b")], "aba b"),
        # A merge that is there twice has the later rank.
        ("abc", [("a", "b"), ("b", "c"), ("a", "b")], "a bc"),
    ],
)
def test_pieces_by_hand(word, merges, expected):
    assert by_queue(word, merges) == expected.split()
    assert merged(["xx", word, word], merges) == [["x", "x"], *[expected.split()] * 2]


def random_merges(rng, *, in_order):
    """Merges as they are learned, or in any order with several ways to a piece."""
    pieces = list("abc"[: rng.randint(1, 3)])
    merges = []
    for _ in range(rng.randint(1, 40)):
        left, right = rng.choice(pieces), rng.choice(pieces)
        if len(left + right) <= 12 and (not in_order or left + right not in pieces):
            merges.append((left, right))
            pieces.append(left + right)
    if not in_order:
        rng.shuffle(merges)
    return merges


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_random_merges(seed, in_order):
    rng = random.Random(seed)
    merges = random_merges(rng, in_order=in_order)
    words = ["".join(rng.choices("abc", k=rng.randint(1, 40))) for _ in range(300)]
    words += ["a" * length for length in range(1, 40)]
    assert merged(words, merges) == [by_queue(word, merges) for word in words]


def test_no_merges_and_no_words():
    assert merged(["ab", "c"], []) == [["a", "b"], ["c"]]
    assert merged([], [("a", "b")]) == []
