"""Compact lookup tables with one value per code point, for TensorFlow graphs."""

import numpy as np

BLOCK = 256


def split_into_blocks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits a table over all code points into blocks, few of which are distinct.

    A flat table would add megabytes to every graph.

    Args:
        values: (0x110000,). One value per code point.

    Returns:
        The distinct `blocks` (B, BLOCK), and `where`, int32 (0x110000 / BLOCK,), the
        index in `blocks` of each block of the table: the value of code point c is
        `blocks[where[c // BLOCK], c % BLOCK]`.

    Example:
    >>> values = np.arange(0x110000) == ord("a")
    >>> blocks, where = split_into_blocks(values)
    >>> blocks.shape, where[:3]
    ((2, 256), array([0, 1, 1], dtype=int32))
    """
    rows = values.reshape(-1, BLOCK)
    # Deduplicated by their bytes: `np.unique(axis=0)` sorts, which takes 0.25 s.
    numbers: dict[bytes, int] = {}
    where = [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows]
    first = np.unique(where, return_index=True)[1]
    return rows[first], np.array(where, np.int32)
