"""Work on rows, a block of them after the other."""

import pytest
import tensorflow as tf

from transbeam.serving.text_ops.row_blocks import in_blocks


@pytest.mark.parametrize("count", [0, 1, 4, 5, 9])
def test_blocks_are_all_rows_in_their_order(count):
    sizes = []

    def work(begin, end):
        sizes.append(int(end - begin))
        rows = tf.range(begin, end)
        return [tf.repeat(rows, 2), tf.cast(rows, tf.float32)]

    twice, once = in_blocks(tf.constant(count), 2**12, work, [tf.int32, tf.float32])
    assert twice.numpy().tolist() == [row for row in range(count) for _ in range(2)]
    assert once.numpy().tolist() == list(range(count))
    assert sizes == ([4] * (count // 4) + [count % 4] * (count % 4 > 0) or [0])


def test_a_row_wider_than_a_block_is_one():
    sizes = []
    in_blocks(3, 2**20, lambda a, b: [sizes.append(int(b - a)) or [a]], [tf.int32])
    assert sizes == [1, 1, 1]
