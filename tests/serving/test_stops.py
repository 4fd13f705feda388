"""Strings in texts, found where Python finds them."""

import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from serving.stops import SEPARATOR, Stops

STRINGS = st.text("abé漢\n\0", max_size=6)
ROWS = st.lists(
    st.tuples(STRINGS, st.lists(st.text("abé漢\n", max_size=3), max_size=3)),
    max_size=4,
)


@given(rows=ROWS)
def test_the_first_is_found_where_python_finds_it(rows):
    texts = [text.encode() for text, _ in rows]
    stops = [[stop.encode() for stop in row if stop] for _, row in rows]
    joined = [SEPARATOR.join(row).encode() for _, row in rows]
    found = Stops.of(tf.constant(joined, tf.string)).find(tf.constant(texts, tf.string))
    assert found.shape == (len(rows),)
    for text, row, place in zip(texts, stops, found.numpy(), strict=True):
        places = [text.find(stop) for stop in row if stop in text]
        assert place == min(places, default=len(text))


def test_a_stop_at_the_very_end_is_in_the_text_and_nothing_is_in_an_empty_one():
    stops = Stops.of(tf.constant(["b", "b", "", "ab"]))
    texts = tf.constant(["ab", "", "ab", "a"])
    assert stops.are_in(texts).numpy().tolist() == [True, False, False, False]
