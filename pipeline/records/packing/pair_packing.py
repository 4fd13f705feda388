"""Packs pairs of texts into records with an encoder and a decoder sequence.

`transbeam.pipeline.records.packing.sequence_packing` packs chunks that have one length;
a pair has two lengths. Records are filled one after another: of the pairs that fit, the
next one is the pair that leaves the least free space in the emptier sequence. So both
sequences are filled evenly; one sequence is rarely full while the other has free space.

References:
    - [Panigrahy et al., 2011](https://www.microsoft.com/en-us/research/publication/heuristics-for-vector-bin-packing/),
      bin-centric norm-based greedy, here with the maximum norm
"""

import numpy as np

BLOCK_PAIRS = 2**15  # packed at once; the time grows quadratically


def pack_pairs(
    first: np.ndarray, second: np.ndarray, capacities: tuple[int, int]
) -> list[list[int]]:
    """Groups pairs into records.

    Args:
        first: int (N,). The length of each pair's first text, at least 1.
        second: int (N,). The length of each pair's second text, at least 1. Pairs with
            equal lengths are packed in the order of their indices.
        capacities: The lengths of both sequences of a record; no text is longer.

    Returns:
        One list per record, with the indices of the record's pairs.

    Example:
    >>> pack_pairs(np.array([6, 4, 4]), np.array([5, 6, 3]), (10, 10))
    [[0, 2], [1]]
    """
    records: list[list[int]] = []
    for start in range(0, len(first), BLOCK_PAIRS):
        block = slice(start, start + BLOCK_PAIRS)
        packed = _pack_block(first[block], second[block], capacities)
        records += [[start + pair for pair in record] for record in packed]
    return records


def _pack_block(
    first: np.ndarray, second: np.ndarray, capacities: tuple[int, int]
) -> list[list[int]]:
    width, depth = capacities
    sizes, left = np.unique(first * (depth + 1) + second, return_counts=True)
    takes_first, takes_second = np.divmod(sizes, depth + 1)
    # The pairs of each size, and the number of used ones.
    by_size = np.argsort(first * (depth + 1) + second, kind="stable")
    begin, used = np.cumsum(left) - left, np.zeros_like(left)

    records: list[list[int]] = []
    while left.any():
        record: list[int] = []
        room = np.array([width, depth])
        fitting = np.flatnonzero(left)
        while len(fitting):
            # The free shares of both sides, over a common denominator.
            first_room = (room[0] - takes_first[fitting]) * depth
            second_room = (room[1] - takes_second[fitting]) * width
            larger = np.maximum(first_room, second_room)
            both = first_room + second_room
            size = fitting[np.argmin(larger * (2 * width * depth + 1) + both)]
            record.append(int(by_size[begin[size] + used[size]]))
            used[size] += 1
            left[size] -= 1
            room -= takes_first[size], takes_second[size]
            fits = (takes_first[fitting] <= room[0]) & (
                takes_second[fitting] <= room[1]
            )
            fitting = fitting[fits & (left[fitting] > 0)]
        records.append(record)
    return records
