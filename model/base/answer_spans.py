"""The search for the best answer span in start and end logits."""

import numpy as np


def best_spans(
    start: np.ndarray, end: np.ndarray, inside: np.ndarray, max_length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finds the best span of each row within the allowed positions and length.

    Args:
        start: float (R, T). Start logits.
        end: float (R, T). End logits.
        inside: bool (R, T). Allowed positions; one contiguous range.
        max_length: Largest number of positions in a span.

    Returns:
        int64 (R,), int64 (R,) and float (R,): first and last position, and the sum of
        their logits, minus infinity if no position is allowed. Ties go to the
        shortest span, then to the first.

    Example:
    >>> start, end = np.array([[9.0, 0, 1, 0]]), np.array([[9.0, 5, 0, 2]])
    >>> inside = np.array([[False, True, True, True]])
    >>> best_spans(start, end, inside, 1)
    (array([1]), array([1]), array([5.]))
    >>> best_spans(start, np.array([[9.0, 0, 0, 2]]), inside, 2)
    (array([2]), array([3]), array([3.]))
    """
    start = np.where(inside, start, -np.inf)
    end = np.where(inside, end, -np.inf)
    rows, length = start.shape
    best = np.full(rows, -np.inf)
    first, last = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    for further in range(min(max_length, length)):
        score = start[:, : length - further] + end[:, further:]
        position = score.argmax(axis=1)
        score = score[np.arange(rows), position]
        better = score > best
        best = np.where(better, score, best)
        first = np.where(better, position, first)
        last = np.where(better, position + further, last)
    return first, last, best
