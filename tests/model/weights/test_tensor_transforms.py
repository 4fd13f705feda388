"""There and back moves every number to where it was."""

import hypothesis
import hypothesis.strategies as st
import numpy as np

from transbeam.model.weights.checkpoints.tensor_transforms import (
    SAME,
    SCORES,
    SIDE_BY_SIDE,
    TRANSPOSE,
    VOCABULARY,
    PatchKernel,
    PatchSquares,
    Same,
    Sizes,
    SplitHeads,
    VocabularyRows,
)

dims = st.integers(1, 5)


def counted(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape)


def round_trip(transform, arrays, sizes) -> np.ndarray:
    """Their tensor, after the way there and back has been checked."""
    theirs = transform.to_theirs(arrays, sizes)
    ours = transform.to_ours(theirs, [array.shape for array in arrays], sizes)
    for found, array in zip(ours, arrays, strict=True):
        np.testing.assert_array_equal(found, array)
    return theirs


@hypothesis.given(rows=dims, columns=dims, heads=dims, head_dim=dims)
def test_one_to_one(rows, columns, heads, head_dim):
    sizes = Sizes(vocabulary_size=rows, head_dim=head_dim)
    array = counted(rows, columns)
    np.testing.assert_array_equal(round_trip(SAME, [array], sizes), array)
    np.testing.assert_array_equal(round_trip(TRANSPOSE, [array], sizes), array.T)
    assert round_trip(Same(leading=1), [array], sizes).shape == (1, rows, columns)
    kernel = counted(rows, heads * head_dim)
    split = round_trip(SplitHeads(axis=1), [kernel], sizes)
    np.testing.assert_array_equal(split, kernel.reshape(rows, heads, head_dim))
    back = counted(heads * head_dim, rows)
    split = round_trip(SplitHeads(axis=0), [back], sizes)
    np.testing.assert_array_equal(split, back.reshape(heads, head_dim, rows))


@hypothesis.given(widths=st.lists(dims, min_size=1, max_size=4), rows=dims)
def test_side_by_side(widths, rows):
    sizes = Sizes(vocabulary_size=1, head_dim=1)
    arrays = [counted(rows, width) for width in widths]
    assert round_trip(SIDE_BY_SIDE, arrays, sizes).shape == (rows, sum(widths))


@hypothesis.given(side=dims, channels=dims, width=dims)
def test_patches(side, channels, width):
    sizes = Sizes(vocabulary_size=0, head_dim=1, num_channels=channels)
    kernel = counted(side * side * channels, width)
    theirs = round_trip(PatchKernel(), [kernel], sizes)
    assert theirs.shape == (width, channels, side, side)
    # The number of pixel (y, x) and colour c is where a flattened square has it.
    for y, x, c in np.ndindex(side, side, channels):
        row = (y * side + x) * channels + c
        np.testing.assert_array_equal(theirs[:, c, y, x], kernel[row])
    squares = round_trip(PatchSquares(), [kernel], sizes)
    np.testing.assert_array_equal(squares, theirs.transpose(2, 3, 1, 0))


@hypothesis.given(vocabulary=dims, more=st.integers(0, 3), width=dims)
def test_vocabulary(vocabulary, more, width):
    sizes = Sizes(vocabulary_size=vocabulary, head_dim=1)
    for transform, padding, theirs in (
        (VOCABULARY, [(0, more), (0, 0)], (vocabulary, width)),
        (VOCABULARY, [(0, more)], (vocabulary,)),
        (SCORES, [(0, 0), (0, more)], (vocabulary, width)),
        (VocabularyRows(axis=1), [(0, 0), (0, more)], (width, vocabulary)),
    ):
        ours = tuple(
            (vocabulary if number == transform.axis else width)
            for number in range(len(padding))
        )
        array = np.pad(counted(*ours), padding)
        assert round_trip(transform, [array], sizes).shape == theirs


def test_a_table_with_fewer_rows_than_theirs():
    """A tokenizer may have fewer pieces than the weights have rows."""
    sizes = Sizes(vocabulary_size=5, head_dim=1)
    theirs = counted(5)
    [ours] = VOCABULARY.to_ours(theirs, [(3,)], sizes)
    np.testing.assert_array_equal(ours, [0, 1, 2])
    np.testing.assert_array_equal(VOCABULARY.to_theirs([ours], sizes), [0, 1, 2, 0, 0])
