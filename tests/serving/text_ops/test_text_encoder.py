"""Texts are framed and cut as the training records are."""

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from transbeam.pipeline.objectives.base.pooled import longest_first
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.serving.text_ops.text_encoder import TextEncoder

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
ROWS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=4
)


def ragged(lengths, piece):
    rows = [[piece] * length for length in lengths]
    return tf.RaggedTensor.from_row_lengths(
        np.array([x for row in rows for x in row], np.int32), np.array(lengths)
    )


@given(rows=ROWS, max_length=st.integers(4, 16))
def test_pairs_lose_what_the_records_lose(rows, max_length):
    encoder = TextEncoder(WordPieceTokenizer(PIECES), max_length)
    first, second = (np.array(column) for column in zip(*rows, strict=True))
    found = encoder.pair(ragged(first.tolist(), 5), ragged(second.tolist(), 6))
    kept = longest_first(first, second, max_length - 3)
    for row, (of_first, of_second) in enumerate(zip(*kept, strict=True)):
        length = int(found.lengths[row])
        ids = [2, *[5] * of_first, 3, *[6] * of_second, 3]
        assert found.token_ids[row, :length].numpy().tolist() == ids
        assert not found.token_ids[row, length:].numpy().any()
        segments = [0] * (of_first + 2) + [1] * (of_second + 1)
        assert found.segment_ids[row, :length].numpy().tolist() == segments
        assert not found.segment_ids[row, length:].numpy().any()
        assert found.padding_mask[row].numpy().sum() == length
        cut = (of_first, of_second) != rows[row]
        assert bool(found.truncated[row]) == cut


@given(lengths=st.lists(st.integers(0, 12), min_size=1, max_size=4))
def test_texts_lose_their_end(lengths):
    encoder = TextEncoder(WordPieceTokenizer(PIECES), 8)
    found = encoder.text(ragged(lengths, 5))
    for row, length in enumerate(lengths):
        ids = [2, *[5] * min(length, 6), 3]
        assert found.token_ids[row, : len(ids)].numpy().tolist() == ids
        assert bool(found.truncated[row]) == (length > 6)
        assert not found.segment_ids[row].numpy().any()
    assert found.token_ids.shape[1] == 8  # the only width of so short a model


def test_whole_numbers_are_not_transposed():
    # oneDNN prints a line about it on processors without AVX-512.
    encoder = TextEncoder(WordPieceTokenizer(PIECES), 8)

    @tf.function(autograph=False)
    def framed(first, second):
        return encoder.text(first).token_ids, encoder.pair(first, second).token_ids

    rows = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)
    operations = framed.get_concrete_function(rows, rows).graph.get_operations()
    assert "Transpose" not in {operation.type for operation in operations}
