"""Places and stretches of texts, by their characters."""

import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tests.data.hostile_strings import HOSTILE_TEXTS
from transbeam.serving.text_ops.utf8_characters import Characters

TEXTS = st.lists(st.text("a é漢👩\u0301\x00\n", max_size=9), min_size=1, max_size=4)


@given(texts=TEXTS, random=st.randoms(use_true_random=False))
def test_stretches_are_those_of_python(texts, random):
    number = [random.randrange(len(texts)) for _ in range(5)]
    begins = [random.randint(0, len(texts[text])) for text in number]
    ends = [
        random.randint(begin, len(texts[text]))
        for text, begin in zip(number, begins, strict=True)
    ]
    characters = Characters.from_texts(tf.constant(texts))
    found = characters.stretches(number, begins, ends).numpy().tolist()
    places = zip(number, begins, ends, strict=True)
    cut = [texts[text][begin:end].encode() for text, begin, end in places]
    assert found == cut
    before = [
        len(texts[text][:begin].encode())
        for text, begin in zip(number, begins, strict=True)
    ]
    assert characters.places(number, before).numpy().tolist() == begins


def test_all_of_a_hostile_text_is_itself():
    texts = [text.encode("utf-8", "surrogatepass") for text in HOSTILE_TEXTS]
    lengths = tf.strings.length(texts, unit="UTF8_CHAR")
    every = tf.range(len(texts), dtype=tf.int64)
    characters = Characters.from_texts(tf.constant(texts))
    found = characters.stretches(every, tf.zeros_like(lengths), lengths)
    assert found.numpy().tolist() == texts


def test_a_silent_byte_is_no_character():
    characters = Characters.from_texts(tf.constant(["a\x02b\x02c"]), silent=2)
    assert characters.places([0, 0, 0], [2, 4, 5]).numpy().tolist() == [1, 2, 3]


def test_no_texts_have_no_characters():
    characters = Characters.from_texts(tf.constant([], tf.string))
    assert characters.before.numpy().tolist() == [0]
