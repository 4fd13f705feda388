"""Framing of expected inputs: special tokens around the ids of one text, in Python.

The data job (`transbeam.pipeline.records.framing`) and the exported graph
(`transbeam.serving.text_ops.framing`) have their own implementations of framing (ADR
24).
"""

from collections.abc import Iterable

import numpy as np

from transbeam.pipeline.tokenizers.base.text_frame import TextFrame


def frame_texts(*texts: Iterable[int], frame: TextFrame) -> np.ndarray:
    """Makes a row such as `[CLS] text [SEP]` or `[CLS] text [SEP] second text [SEP]`.

    Example:
    >>> frame_texts([5, 6], [7], frame=TextFrame(before=1, between=2, after=2))
    array([1, 5, 6, 2, 7, 2], dtype=int32)
    >>> frame_texts([], frame=TextFrame(None, 2, None, alone=2))
    array([2], dtype=int32)
    """
    row = [frame.before]
    for number, text in enumerate(texts):
        row += [frame.between] * (number > 0) + [*text]
    row.append(frame.after)
    tokens = [token for token in row if token is not None]
    return np.array(tokens or [frame.alone], np.int32)
