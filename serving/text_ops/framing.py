"""Framing of served texts: special tokens around tokenized texts, in the graph.

The data job (`transbeam.pipeline.records.framing`) and the parity check
(`transbeam.serving.parity.base.framing`) have their own implementations (ADR 24).
"""

from typing import Any

import tensorflow as tf

from transbeam.pipeline.tokenizers.base.ragged_rows import (
    append_token,
    concatenate_ragged,
    prepend_token,
)
from transbeam.pipeline.tokenizers.base.text_frame import TextFrame


def frame_texts(*texts: tf.RaggedTensor, frame: TextFrame) -> Any:
    """Makes rows such as `[CLS] text [SEP]` or `[CLS] text [SEP] second text [SEP]`.

    Args:
        texts: int32 (B, None): the texts, or the first and the second texts of pairs.
        frame: The special tokens.

    Example:
    >>> one, two = tf.ragged.constant([[5, 6], []]), tf.ragged.constant([[7], [8]])
    >>> frame_texts(one, two, frame=TextFrame(before=1, between=2, after=2)).to_list()
    [[1, 5, 6, 2, 7, 2], [1, 2, 8, 2]]
    >>> frame_texts(one, frame=TextFrame(None, 2, None, alone=2)).to_list()
    [[5, 6], [2]]
    """
    framed, *further = texts
    if frame.before is not None:
        framed = prepend_token(framed, frame.before)
    for text in further:
        framed = concatenate_ragged(append_token(framed, frame.between), text)
    if frame.after is not None:
        framed = append_token(framed, frame.after)
    if frame.alone is not None and frame.size(len(texts)) == 0:
        framed = prepend_token(framed, frame.alone, framed.row_lengths() == 0)
    return framed
