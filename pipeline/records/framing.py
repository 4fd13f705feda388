"""Framing of records: special tokens around tokenized texts, in NumPy.

Two other modules implement the same framing: `transbeam.serving.text_ops.framing` in
the exported graph, and `transbeam.serving.parity.base.framing` in the parity check (ADR
24).
"""

from transbeam.pipeline.records.token_rows import TokenRows, join_rows


def frame_texts(*texts: TokenRows, begin: int, end: int) -> TokenRows:
    """Makes rows `[CLS] text [SEP]`, or `[CLS] text [SEP] second text [SEP]`.

    Args:
        *texts: The texts, or the first and the second texts of pairs.
        begin: The id of `[CLS]`.
        end: The id of `[SEP]`.

    Example:
    >>> import numpy as np
    >>> from transbeam.pipeline.records.token_rows import split_rows
    >>> text = split_rows(np.array([5, 6, 7]), np.array([2, 1]))
    >>> frame_texts(text, begin=1, end=2).ids
    array([1, 5, 6, 2, 1, 7, 2], dtype=int32)
    """
    return join_rows(begin, *(part for text in texts for part in (text, end)))
