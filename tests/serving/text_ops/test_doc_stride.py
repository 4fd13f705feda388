"""Windows are those of the training's records."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.serving.text_ops.doc_stride import TextWindows

SPECIAL = SpecialIds(pad=0, begin=1, end=2)
LENGTH, LONGEST_QUESTION = 12, 3
ROWS = st.lists(
    st.tuples(
        st.lists(st.integers(3, 9), max_size=5),
        st.lists(st.integers(10, 99), max_size=40),
    ),
    min_size=1,
    max_size=4,
)


def ragged(rows):
    return tf.ragged.constant(rows, dtype=tf.int32, ragged_rank=1)


@settings(deadline=None)
@given(rows=ROWS, stride=st.integers(1, 14))
def test_windows_overlap_and_reach_the_end(rows, stride):
    questions, texts = zip(*rows, strict=True)
    found = TextWindows.from_texts(
        ragged(questions),
        ragged(texts),
        SPECIAL,
        length=LENGTH,
        stride=stride,
        longest_question=LONGEST_QUESTION,
    )
    expected = []
    for number, (question, text) in enumerate(rows):
        head = [1, *question[:LONGEST_QUESTION], 2]
        room = LENGTH - len(head) - 1
        start = 0
        while True:
            expected.append((number, head, text[start : start + room], start))
            if start + room >= len(text):
                break
            start += min(stride, room)
    assert found.text.numpy().tolist() == [number for number, *_ in expected]
    longest = max(len(head) + len(window) + 1 for _, head, window, _ in expected)
    assert int(found.longest) == longest
    rows_found = found.rows(0, len(expected))
    arrays = [column.numpy() for column in rows_found]
    for row, (_, head, window, start) in enumerate(expected):
        size = len(head) + len(window) + 1
        ids, mask, segments, inside, to_text = (array[row] for array in arrays)
        assert ids[:size].tolist() == [*head, *window, 2]
        assert not ids[size:].any()
        assert mask.tolist() == [1] * size + [0] * (LENGTH - size)
        at = np.arange(LENGTH)
        assert segments.tolist() == ((at >= len(head)) & (at < size)).tolist()
        assert inside.tolist() == ((at >= len(head)) & (at < size - 1)).tolist()
        assert to_text == start - len(head)
