"""4-bit weight quantization with error compensation (GPTQ)."""

import numpy as np

_LARGEST = 7  # of 4 bits, symmetric
# Damping relative to the mean square of an input: moments of few texts are poor
# estimates for inputs that hardly vary.
_DAMPING = 0.01
# Candidate scales, relative to the largest.
_SHARES = np.linspace(1.0, 0.5, 26, dtype=np.float32)
_BLOCK = 128  # columns between updates of all later columns


def gptq(weights: np.ndarray, moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quantizes the weights of a matrix product to 4 bits, with one scale per row.

    Each weight is rounded to the nearest step. The rounding error is compensated by the
    weights of the row that are not rounded yet, as far as their inputs correlate with
    the input of the rounded weight. M is the matrix of second moments, d is a damping
    term, and U is the upper triangular matrix with U'U = (M + dI)^-1:

        q_i = round(w_i / s),  e = (w_i - s q_i) / U_ii,  w_j -= e U_ij for all j > i

    (Frantar et al., 2022, https://arxiv.org/abs/2210.17323, algorithm 1). Weights of
    the inputs with the largest mean squares are rounded first, when most other weights
    can still compensate.

    Args:
        weights: Weights (rows, n) of a product with n inputs.
        moments: (n, n), the second moments of the inputs: the mean of xx' over input
            vectors x.

    Returns:
        Integers from -7 to 7, int8 (rows, n); and the scale of each row, float32
        (rows,).

    Example: the last two inputs are always equal, so one weight can replace both.
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
    """Quantizes embedding rows to 4 bits, without error compensation.

    Large entries are clipped. As in `gptq`, but with equal weights of all entries, the
    scale preserves the projection of each row on the original row: otherwise all logits
    of an output head that shares the table would shrink.

    Args:
        rows: (rows, n).

    Returns:
        As `gptq`.

    Example: 10 is clipped, because with 10 / 7 as a step the other twenty numbers would
    be rounded too coarsely.
    >>> numbers, scales = round_rows(np.array([[10.0] + 10 * [1.0, -1.0]]))
    >>> numbers[0, :3].tolist(), f"{scales[0]:.2f}"
    ([7, 1, -1], '1.33')
    """
    scales = _steps(rows, np.ones(rows.shape[1], np.float32))
    rounded = _nearest(rows, scales[:, None]).astype(np.int8)
    return rounded, _reaching(rows, rounded, rows, scales)


def _steps(rows: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Returns the scale of each row with the least weighted squared error."""
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
    """Returns scales that preserve the rows' projections on given directions."""
    ours, theirs = (rounded * along).sum(axis=1), (rows * along).sum(axis=1)
    scales = np.where(ours > 0, theirs / np.where(ours > 0, ours, 1.0), steps)
    # For rows with nearly no output it is a quotient of rounding errors.
    return np.clip(scales, steps / 2, steps * 2).astype(np.float32)


def _nearest(weights: np.ndarray, scales: np.ndarray) -> np.ndarray:
    return np.clip(np.round(weights / scales), -_LARGEST, _LARGEST)


def _factor(moments: np.ndarray) -> np.ndarray:
    """Returns the upper Cholesky factor of the inverse of the damped second moments."""
    damped = moments.astype(np.float64)
    diagonal = np.diag_indices_from(damped)
    # If all inputs are always 0, any damping will do.
    damped[diagonal] += _DAMPING * damped[diagonal].mean() or 1.0
    return np.linalg.cholesky(np.linalg.inv(damped)).T
