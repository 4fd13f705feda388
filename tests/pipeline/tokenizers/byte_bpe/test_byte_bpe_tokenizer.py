"""The ids are those of the Rust library, eagerly and in tf.data."""

import random
from functools import cache

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.tokenizers.hostile_text_tokenizers import (
    HOSTILE,
    byte_bpe,
    docstrings,
    learned_byte_bpe,
)
from tests.pipeline.tokenizers.rust_byte_bpe import rust_byte_bpe, rust_byte_bpe_ids
from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_tokenizer import ByteBPETokenizer
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET

# What makes words begin or end, and what looks like it.
SNIPPETS = [
    *[" ", "  ", "\n", "\t", "\r\n", "\xa0", "\u3000", "\x0b", "\x85", "\u2028", "\0"],
    *[
        "'",
        "''",
        "'s",
        "'S",
        "'re",
        "'ll",
        "'ve",
        "'t",
        "'m",
        "'d",
        "'l",
        "ve",
        "\u2019s",
    ],
    *["a", "A", "the", "ing", "é", "\u0301", "漢字", "\u01c5", "\U00010400", "한"],
    *["1", "12", "\u0661", "\xbd", "\u2163", "!", "...", "---", "=", "\U0001f600"],
    *["\u200d", "\u200b", "\ufffd", "\U0010ffff", "<|endoftext|>", "x" * 30, "-" * 40],
]


@cache
def rust(add_prefix_space=False):
    return rust_byte_bpe(*learned_byte_bpe(), add_prefix_space=add_prefix_space)


@cache
def by_hand():
    pieces = [*ALPHABET, "Ġa", "nd", "Ġand", "<|endoftext|>"]
    merges = [("Ġ", "a"), ("n", "d"), ("Ġa", "nd")]
    return ByteBPETokenizer(pieces, merges)


def test_ids_by_hand():
    ids = by_hand().tokenize(["band and", "", "  a", "<|"])
    expected = [[98, 97, 257, 258], [], [32, 256], [60, 124]]
    assert ids.to_list() == expected
    assert ids.dtype == tf.int32
    assert by_hand().vocabulary_size == 260


@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_hostile_texts_have_the_ids_of_the_rust_library(add_prefix_space):
    ids = byte_bpe(add_prefix_space).tokenize(HOSTILE).to_list()
    assert ids == rust_byte_bpe_ids(rust(add_prefix_space), HOSTILE)


def generated_texts(seed, count):
    rng = random.Random(seed)
    corpus = "".join(docstrings())
    for _ in range(count // 4):
        yield "".join(rng.choices(SNIPPETS, k=rng.randint(1, 25)))
        code_points = (rng.randrange(2 ** rng.randint(3, 20)) for _ in range(20))
        yield "".join(chr(c) for c in code_points if not 0xD800 <= c < 0xE000)
        yield "".join(rng.choices("etaoinshrdlucmfwyp", k=rng.randint(1, 60)))
        start = rng.randrange(len(corpus))
        snippet = rng.choice(SNIPPETS)
        yield corpus[start : start + 40] + snippet + corpus[start + 40 : start + 80]


def test_generated_texts_have_the_ids_of_the_rust_library():
    texts = list(generated_texts(seed=0, count=8000))
    assert byte_bpe().tokenize(texts).to_list() == rust_byte_bpe_ids(rust(), texts)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.lists(
            st.sampled_from(SNIPPETS) | st.characters(exclude_categories=["Cs"]),
            max_size=20,
        ).map("".join)
        | st.binary(max_size=20),
        max_size=6,
    )
)
def test_any_text_has_the_ids_of_the_rust_library_and_comes_back(texts):
    encoded = [t if isinstance(t, bytes) else t.encode() for t in texts]
    ids = byte_bpe().tokenize(tf.constant(encoded, tf.string, [len(encoded)]))
    assert ids.to_list() == rust_byte_bpe_ids(rust(), encoded)
    expected = [text.decode("utf-8", "replace").encode() for text in encoded]
    assert byte_bpe().detokenize(ids).numpy().tolist() == expected


@pytest.mark.parametrize(
    "word",
    ["a" * 100_000, "ab" * 50_000, "-=-" * 30_000, "漢字" * 20_000, " " * 99_999],
)
def test_a_very_long_word_among_short_ones(word):
    texts = ["short words", word, f"a {word} b"]
    assert byte_bpe().tokenize(texts).to_list() == rust_byte_bpe_ids(rust(), texts)


def test_a_very_long_word_of_random_letters():
    texts = ["".join(random.Random(0).choices("etaoinshrdlu", k=100_000))]
    assert byte_bpe().tokenize(texts).to_list() == rust_byte_bpe_ids(rust(), texts)


def test_a_text_is_its_words_put_together():
    rows = byte_bpe().words(HOSTILE).to_list()
    joined = [b"".join(row) for row in rows]
    assert joined == [t.decode("utf-8", "replace").encode() for t in HOSTILE]
    assert byte_bpe().words(["It's  so\n"]).to_list() == [
        [b"It", b"'s", b" ", b" so", b"\n"]
    ]


def test_no_texts_give_no_rows():
    none = tf.zeros([0], tf.string)
    assert byte_bpe().tokenize(none).to_list() == []
    assert byte_bpe().words(none).to_list() == []
    assert byte_bpe().detokenize(byte_bpe().tokenize(none)).shape == (0,)
    assert byte_bpe(add_prefix_space=True).tokenize([""]).to_list() == [[]]


def test_detokenize_gives_bytes_and_special_pieces():
    pieces = ["<pad>", *ALPHABET, "Ġa", "naïve piece"]
    special = ["<pad>", "naïve piece"]
    by_hand = ByteBPETokenizer(pieces, [("Ġ", "a")], special_pieces=special)
    ids = tf.ragged.constant([[257, 0, 258], [], [0xE9 + 1]], dtype=tf.int32)
    expected = [" a<pad>naïve piece".encode(), b"", b"\xe9"]
    assert by_hand.detokenize(ids).numpy().tolist() == expected


@pytest.mark.parametrize("wrong", [1500, -1, 10**6])
def test_detokenize_refuses_an_id_outside_the_vocabulary(wrong):
    ids = tf.ragged.constant([[5, wrong]], dtype=tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
        byte_bpe().detokenize(ids)


def test_pieces_that_start_words_and_ordinary_ones():
    tokenizer = by_hand()
    assert np.flatnonzero(tokenizer.starts_word).tolist() == [32, 256, 258, 259]
    assert tokenizer.ordinary_ids.tolist() == list(range(259))
    special = tokenizer.special
    assert special.begin == special.end == special.pad == 259
    # A word alone and inside a sentence.
    alone = tokenizer.tokenize([tokenizer.word_prefix + "a"]).to_list()
    assert alone == [[256]] == [tokenizer.tokenize(["b a"]).to_list()[0][1:]]


def test_a_faulty_vocabulary_is_refused():
    with pytest.raises(ArtifactError, match=r"vocabulary: merge 0.*'ab'"):
        ByteBPETokenizer([*ALPHABET, "<|endoftext|>"], [("a", "b")])


def test_same_ids_inside_tf_data():
    dataset = tf.data.Dataset.from_tensor_slices(HOSTILE).batch(7)
    rows = [row for ids in dataset.map(byte_bpe().tokenize) for row in ids.to_list()]
    assert rows == byte_bpe().tokenize(HOSTILE).to_list()
