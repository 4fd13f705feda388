"""Framing of expected inputs: special tokens around the ids of one text, in Python.

The data job (`transbeam.pipeline.records.framing`) and the exported graph
(`transbeam.serving.text_ops.framing`) have their own implementations of framing (ADR
24).
"""

from collections.abc import Iterable

import numpy as np

from transbeam.pipeline.tokenizers.base.interface import SpecialIds


def frame_texts(*texts: Iterable[int], special: SpecialIds) -> np.ndarray:
    """Makes the row `[CLS] text [SEP]`, or `[CLS] text [SEP] second text [SEP]`.

    Example:
    >>> frame_texts([5, 6], [7], special=SpecialIds(pad=0, begin=1, end=2))
    array([1, 5, 6, 2, 7, 2], dtype=int32)
    """
    row = [special.begin]
    for text in texts:
        row += [*text, special.end]
    return np.array(row, np.int32)
