"""Orthogonal random vectors."""

import numpy as np


def orthogonal_features(
    num_features: int, width: int, seed: int | None = None
) -> np.ndarray:
    """Draws normally distributed vectors that are orthogonal in groups of `width`.

    Args:
        num_features: Number of vectors.
        width: Their width.
        seed: Random seed; with None, every call draws different vectors.

    Returns:
        float32 `(num_features, width)`.

    Example:
    >>> rows = orthogonal_features(2, 2, seed=1)
    >>> abs(float(rows[0] @ rows[1])) < 1e-6
    True
    """
    generator = np.random.default_rng(seed)
    groups = -(-num_features // width)
    normal = generator.normal(size=(groups, width, width))
    rows, upper = np.linalg.qr(normal)
    # The QR factorization fixes the signs; these make all directions equally likely.
    rows = rows * np.sign(np.diagonal(upper, axis1=1, axis2=2))[:, np.newaxis]
    rows = np.swapaxes(rows, 1, 2).reshape(-1, width)[:num_features]
    lengths = np.linalg.norm(generator.normal(size=(num_features, width)), axis=1)
    return (rows * lengths[:, np.newaxis]).astype("float32")
