"""A value for every code point, small enough to stand in a graph."""

import numpy as np

BLOCK = 256


def blocks_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cuts a table over all code points into blocks, of which few differ.

    Flat it would put megabytes into every graph.

    Args:
        values: (0x110000,). One value per code point.

    Returns:
        The different blocks (B, BLOCK), and int32 (0x110000 / BLOCK,) which block
        stands where: the value of c is `blocks[where[c // BLOCK], c % BLOCK]`.

    Example:
    >>> values = np.arange(0x110000) == ord("a")
    >>> blocks, where = blocks_of(values)
    >>> blocks.shape, where[:3]
    ((2, 256), array([0, 1, 1], dtype=int32))
    """
    rows = values.reshape(-1, BLOCK)
    # By their bytes: `np.unique(axis=0)` sorts, which takes a quarter of a second.
    numbers: dict[bytes, int] = {}
    where = [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows]
    first = np.unique(where, return_index=True)[1]
    return rows[first], np.array(where, np.int32)
