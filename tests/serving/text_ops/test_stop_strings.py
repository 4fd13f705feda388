"""Strings in texts, found where Python finds them."""

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from transbeam.serving.text_ops.stop_strings import MOST, SEPARATOR, StopStrings

STRINGS = st.text("abé漢\n\0", max_size=6)
ROWS = st.lists(
    st.tuples(
        STRINGS,
        st.lists(st.text("abé漢\n", max_size=3), max_size=3),
        st.integers(-2, 8),
    ),
    max_size=4,
)


def find(joined, texts, since):
    """Places of the strings of each row."""
    stops = StopStrings.from_joined(tf.constant(joined, tf.string))
    found = stops.find(tf.constant(texts, tf.string), tf.constant(since, tf.int32))
    return found.numpy().tolist()


@given(rows=ROWS)
def test_the_first_is_found_where_python_finds_it(rows):
    texts = [text.encode() for text, _, _ in rows]
    stops = [[stop.encode() for stop in row if stop] for _, row, _ in rows]
    joined = [SEPARATOR.join(row).encode() for _, row, _ in rows]
    found = find(joined, texts, [since for _, _, since in rows])
    assert len(found) == len(rows)
    for text, row, (_, _, since), place in zip(texts, stops, rows, found, strict=True):
        ends = [
            (text[:end].rfind(stop), stop)
            for stop in row
            for end in range(max(since, 0) + 1, len(text) + 1)
            if text[:end].endswith(stop)
        ]
        assert place == min((place for place, _ in ends), default=len(text))


def test_a_string_at_the_very_end_and_nothing_in_an_empty_text():
    joined, texts = ["b", "b", "", "ab"], ["ab", "", "ab", "a"]
    assert find(joined, texts, [0] * 4) == [1, 0, 2, 1]


def test_a_string_longer_than_the_text_is_not_compared():
    million = "a" * 1_000_000
    assert (
        find([f"{million}{SEPARATOR}aab"] * 64, ["a" * 999] * 64, [0] * 64)
        == [999] * 64
    )


def test_so_many_strings_and_no_more():
    def many(number):
        return [SEPARATOR.join(["", *["b"] * number]), "a"]

    assert find(many(MOST), ["ab", "ba"], [0, 0]) == [1, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="257 strings; expected"):
        find(many(MOST + 1), ["ab", "ba"], [0, 0])
