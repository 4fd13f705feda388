"""Words of raw text, with the places that they stand at."""

import unicodedata

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tests.data.hostile_strings import HOSTILE_TEXTS
from transbeam.configs.system.memory import peak_memory
from transbeam.serving.text_ops.word_split import split_words

split = tf.function(
    split_words, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
)


def words_of(text: str) -> list[str]:
    return [word.decode() for word in split(tf.constant([text])).texts[0].numpy()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n\u3000\u00ad\u200b", []),
        ("It's $5.20, or 1,000 at 10:30!", "It 's $ 5.20 , or 1,000 at 10:30 !"),
        ("Don't: can’t isn't'n't n'th", "Do n't : ca n’t is n't 'n 't n 'th"),
        ("well... so -- (no)?!", "well ... so -- ( no ) ? !"),
        ("U.S. and a_b@c.org.", "U.S . and a_b@c.org ."),
        ("see https://a.b/c?d=1, http://x/.", "see https://a.b/c?d=1 , http://x/ ."),
        ("naïve e\u0301té हिन्दी", "naïve e\u0301té हिन्दी"),
        ("東京 is 大", "東 京 is 大"),
        ("a\x00b\x01c", "a b c"),
        ("👩‍👧x", "👩 👧 x"),
        ("\u0378\ue000y", "\u0378 y"),
    ],
)
def test_by_hand(text: str, words: str | list) -> None:
    assert words_of(text) == (words.split(" ") if isinstance(words, str) else words)


def check(texts: list[str]) -> None:
    """Words are where they are said to be, and nothing but spaces is between them."""
    found = split(tf.constant(texts, tf.string))
    columns = (each.to_list() for each in found)
    for text, words, starts, ends in zip(texts, *columns, strict=True):
        text = text.replace("\x00", " ")
        assert [text[a:b].encode() for a, b in zip(starts, ends, strict=True)] == words
        edges = [
            0,
            *(place for pair in zip(starts, ends, strict=True) for place in pair),
        ]
        assert edges == sorted(edges)
        edges.append(len(text))
        between = "".join(
            text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)
        )
        # What Unicode has assigned since the splitter was built is no space to it.
        kinds = {unicodedata.category(character)[0] for character in between}
        assert kinds <= {"Z", "C"}, between


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4))
def test_every_word_is_where_it_is_said_to_be(texts: list[str]) -> None:
    check(texts)


def test_hostile_texts() -> None:
    check(HOSTILE_TEXTS)


def test_bytes_that_are_no_text() -> None:
    found = split(tf.constant([b"ab\xff\xfe cd", b"\xe2\x82"]))
    assert found.texts.to_list() == [[b"ab", b"\xff\xfe", b"cd"], [b"\xe2\x82"]]


def test_a_text_is_not_copied_for_each_word():
    text = tf.constant(["ab " * 20_000])
    split(text[:1])  # what is made once
    with peak_memory() as before:
        pass
    with peak_memory() as peak:
        split(text)
    assert peak.megabytes - before.megabytes < 100  # copies would be 1,200
