"""Framing of records: special tokens around tokenized texts, in NumPy.

Two other modules implement the same framing: `transbeam.serving.text_ops.framing` in
the exported graph, and `transbeam.serving.parity.base.framing` in the parity check (ADR
24).
"""

from transbeam.pipeline.records.token_rows import TokenRows, join_rows
from transbeam.pipeline.tokenizers.base.text_frame import TextFrame


def frame_texts(*texts: TokenRows, frame: TextFrame) -> TokenRows:
    """Makes rows such as `[CLS] text [SEP]` or `[CLS] text [SEP] second text [SEP]`.

    Args:
        *texts: The texts, or the first and the second texts of pairs; none is empty.
        frame: The special tokens.

    Example:
    >>> import numpy as np
    >>> from transbeam.pipeline.records.token_rows import split_rows
    >>> text = split_rows(np.array([5, 6, 7]), np.array([2, 1]))
    >>> frame_texts(text, frame=TextFrame(before=1, between=2, after=2)).ids
    array([1, 5, 6, 2, 1, 7, 2], dtype=int32)
    >>> frame_texts(text, text, frame=TextFrame(None, 0, None)).ids
    array([5, 6, 0, 5, 6, 7, 0, 7], dtype=int32)
    """
    first, *others = texts
    parts = [frame.before, first]
    for text in others:
        parts += [frame.between, text]
    parts.append(frame.after)
    return join_rows(*(part for part in parts if part is not None))
