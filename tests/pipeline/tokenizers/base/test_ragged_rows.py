"""Rows by their splits are what `tf.ragged`, written for any dimensions, makes."""

import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from transbeam.pipeline.tokenizers.base.ragged_rows import (
    append_token,
    concatenate_ragged,
    filter_rows,
    flatten_rows,
    is_before,
    joined,
    positions_in_rows,
    prepend_token,
    row_of_each,
    select_in_rows,
    split_rows,
    strip_padding,
)

IDS = st.integers(0, 5)
ROWS = st.lists(st.lists(IDS, max_size=4), max_size=5)


def ragged(rows, rank=1):
    return tf.ragged.constant(rows, tf.int32, ragged_rank=rank)


@given(ROWS)
def test_each_value_has_its_row_and_its_place(rows):
    tokens = ragged(rows)
    expected = tokens.value_rowids(), tf.ragged.range(tokens.row_lengths()).values
    found = row_of_each(tokens), positions_in_rows(tokens)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.numpy().tolist() == theirs.numpy().tolist()
    assert split_rows(tokens.values, tokens.row_lengths()).to_list() == rows


@given(st.lists(st.tuples(st.lists(IDS, max_size=4), IDS), max_size=5))
def test_who_stands_before_a_place(pairs):
    tokens = ragged([row for row, _ in pairs])
    found = is_before(tokens, tf.constant([place for _, place in pairs], tf.int32))
    expected = [number < place for row, place in pairs for number in range(len(row))]
    assert found.numpy().tolist() == expected


@given(ROWS)
def test_what_is_kept_of_rows(rows):
    tokens = ragged(rows)
    kept = tokens.values > 2
    expected = tf.ragged.boolean_mask(tokens, tokens.with_values(kept))
    assert filter_rows(tokens, kept).to_list() == expected.to_list()


@given(st.lists(st.lists(IDS, min_size=3, max_size=3), min_size=1, max_size=5))
def test_what_is_chosen_in_rows_of_one_length(rows):
    values = tf.constant(rows)
    chosen = tf.ragged.boolean_mask(values, values > 2)
    assert select_in_rows(values, values > 2).to_list() == chosen.to_list()
    lengths = values[:, 0] - 1  # from one less than nothing to one more than all
    first = tf.RaggedTensor.from_tensor(values, lengths=lengths)
    assert strip_padding(values, lengths).to_list() == first.to_list()


@given(ROWS)
def test_pieces_at_both_ends(rows):
    tokens, empty = ragged(rows), tf.constant([not row for row in rows], tf.bool)
    assert prepend_token(tokens, 9).to_list() == [[9, *row] for row in rows]
    assert append_token(tokens, 9).to_list() == [[*row, 9] for row in rows]
    where_empty = prepend_token(tokens, 9, empty)
    assert where_empty.to_list() == [row or [9] for row in rows]


@given(st.lists(st.tuples(st.lists(IDS), st.lists(IDS)), max_size=4))
def test_rows_beside_rows(pairs):
    one, other = (ragged([pair[place] for pair in pairs]) for place in (0, 1))
    assert concatenate_ragged(one, other).to_list() == [[*a, *b] for a, b in pairs]


@given(st.lists(ROWS, max_size=4))
def test_rows_of_rows_put_together(rows):
    tokens = ragged(rows, rank=2)
    assert flatten_rows(tokens).to_list() == tokens.merge_dims(1, 2).to_list()


@given(ROWS, st.sampled_from(["", " "]))
def test_strings_put_together(rows, separator):
    texts = tf.strings.as_string(ragged(rows))
    expected = [separator.join(map(str, row)).encode() for row in rows]
    assert joined(texts, separator).numpy().tolist() == expected
