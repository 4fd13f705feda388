"""Rounding to 4 bits: products so that weights make each other's errors good (GPTQ)."""

import numpy as np

_LARGEST = 7  # of 4 bits: as far up as down
# Of the mean square of an input, which is added to each: moments of few texts say
# little of inputs that hardly ever differ.
_DAMPING = 0.01
# Of the longest step: those that are tried.
_SHARES = np.linspace(1.0, 0.5, 26, dtype=np.float32)
_BLOCK = 128  # weights of a row, after which the others are made good at once


def gptq(weights: np.ndarray, moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rounds a product's weights to 4 bits, with one scale for each row.

    A weight is rounded to the nearest step. What the product is off by then, the
    weights of the row that are not rounded yet make good, as far as their inputs go
    together with this one's. With U upper triangular, U'U = (M + dI)^-1:

        q_i = round(w_i / s),  e = (w_i - s q_i) / U_ii,  w_j -= e U_ij for all j > i

    (Frantar et al., 2022, https://arxiv.org/abs/2210.17323, algorithm 1). Inputs with
    the largest squares come first, when there are most others left.

    Args:
        weights: (rows, n), of n inputs.
        moments: (n, n), the means of the inputs' products with each other, xx'.

    Returns:
        Whole numbers from -7 to 7, int8 (rows, n); and what those of a row are times,
        float32 (rows,).

    Example: the last two inputs are always equal, so one can speak for both.
    >>> weights = np.array([[7.0, 0.4, 0.4]])
    >>> moments = np.array([[2.0, 0, 0], [0, 1, 1], [0, 1, 1]])
    >>> numbers, scales = gptq(weights, moments)
    >>> numbers.tolist(), f"{scales[0]:.3f}"
    ([[7, 0, 1]], '0.998')
    """
    scales = _steps(weights, np.diag(moments))
    order = np.argsort(-np.diag(moments), kind="stable")
    left = weights[:, order].astype(np.float64)
    factor = _factor(moments[np.ix_(order, order)])
    rounded = np.empty(weights.shape, np.int8)
    for start in range(0, len(order), _BLOCK):
        end = min(start + _BLOCK, len(order))
        errors = np.empty((len(left), end - start))
        for i in range(start, end):
            nearest = _nearest(left[:, i], scales)
            rounded[:, order[i]] = nearest
            error = (left[:, i] - nearest * scales) / factor[i, i]
            left[:, i + 1 : end] -= np.outer(error, factor[i, i + 1 : end])
            errors[:, i - start] = error
        left[:, end:] -= errors @ factor[start:end, end:]
    return rounded, _reaching(weights, rounded, weights @ moments, scales)


def round_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rounds rows that are looked up: nothing makes good what a number is off by.

    They are cut off, and reach as far as before, as in `gptq`, with numbers that all
    count the same: else all scores of a head that multiplies with the table would be
    smaller.

    Args:
        rows: (rows, n).

    Returns:
        As `gptq`.

    Example: a seventh of 10 is too long a step for the other twenty numbers.
    >>> numbers, scales = round_rows(np.array([[10.0] + 10 * [1.0, -1.0]]))
    >>> numbers[0, :3].tolist(), f"{scales[0]:.2f}"
    ([7, 1, -1], '1.33')
    """
    scales = _steps(rows, np.ones(rows.shape[1], np.float32))
    rounded = _nearest(rows, scales[:, None]).astype(np.int8)
    return rounded, _reaching(rows, rounded, rows, scales)


def _steps(rows: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Of each row the step with which it is least off, each number by its square."""
    largest = np.abs(rows).max(axis=1)
    longest = np.where(largest > 0, largest / _LARGEST, 1.0).astype(np.float32)
    found, least = longest, np.full(len(rows), np.inf)
    for share in _SHARES:
        steps = share * longest
        rounded = _nearest(rows, steps[:, None]) * steps[:, None]
        off = np.square(rounded - rows) @ squares
        found = np.where(off < least, steps, found)
        least = np.minimum(off, least)
    return found


def _reaching(
    rows: np.ndarray, rounded: np.ndarray, along: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """The scales with which rounded rows reach as far along something as these do."""
    ours, theirs = (rounded * along).sum(axis=1), (rows * along).sum(axis=1)
    scales = np.where(ours > 0, theirs / np.where(ours > 0, ours, 1.0), steps)
    # Of a row that gives next to nothing it is a quotient of what sums are off by.
    return np.clip(scales, steps / 2, steps * 2).astype(np.float32)


def _nearest(weights: np.ndarray, scales: np.ndarray) -> np.ndarray:
    return np.clip(np.round(weights / scales), -_LARGEST, _LARGEST)


def _factor(moments: np.ndarray) -> np.ndarray:
    """Of the inverse: the upper one of two triangles whose product it is."""
    damped = moments.astype(np.float64)
    places = np.diag_indices_from(damped)
    # Inputs that are always 0 say nothing, and then any number does.
    damped[places] += _DAMPING * damped[places].mean() or 1.0
    return np.linalg.cholesky(np.linalg.inv(damped)).T
