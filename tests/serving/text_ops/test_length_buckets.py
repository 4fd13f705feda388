"""Few widths, none of them much too wide."""

import pytest
import tensorflow as tf

from transbeam.serving.text_ops.length_buckets import bucket, widths


@pytest.mark.parametrize("max_length", [1, 2, 15, 16, 17, 24, 128, 500, 512, 2048])
def test_every_row_finds_a_width_that_is_little_wider(max_length):
    known = widths(max_length)
    assert list(known) == sorted(set(known))
    assert known[-1] == max_length
    for longest in range(max_length + 1):
        width = int(bucket(tf.constant(longest), max_length))
        assert width in known
        assert longest <= width <= max(16, longest + 7, 1.25 * longest)


def test_there_are_few():
    assert widths(128) == (16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128)
    assert len(widths(2048)) == 27
