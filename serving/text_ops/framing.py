"""Framing of served texts: special tokens around tokenized texts, in the graph.

The data job (`transbeam.pipeline.records.framing`) and the parity check
(`transbeam.serving.parity.base.framing`) have their own implementations (ADR 24).
"""

from typing import Any

import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    append_token,
    concatenate_ragged,
    prepend_token,
)


def frame_texts(*texts: tf.RaggedTensor, special: SpecialIds) -> Any:
    """Makes rows `[CLS] text [SEP]`, or `[CLS] text [SEP] second text [SEP]`.

    Args:
        texts: int32 (B, None): the texts, or the first and the second texts of pairs.
        special: Special ids of a tokenizer that has a begin token (`[CLS]`) and an end
            token (`[SEP]`).

    Example:
    >>> special = SpecialIds(pad=0, begin=1, end=2)
    >>> one, two = tf.ragged.constant([[5, 6], []]), tf.ragged.constant([[7], [8]])
    >>> frame_texts(one, two, special=special).to_list()
    [[1, 5, 6, 2, 7, 2], [1, 2, 8, 2]]
    """
    first, *further = (append_token(text, special.end) for text in texts)
    framed = prepend_token(first, special.begin)
    for text in further:
        framed = concatenate_ragged(framed, text)
    return framed
