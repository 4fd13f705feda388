"""Geometry of sets of vectors: their directions, ranks and neighbors.

Hidden states of a Transformer point into a narrow cone: two words drawn at random are
similar already. A similarity of vectors therefore has a meaning only beside that of
random vectors of the same layer, its baseline.

All functions are of NumPy, in float64. Shapes: `N` vectors, `D` width.

References:
    - [Ethayarajh, 2019](https://arxiv.org/abs/1909.00512), section 3.3
"""

from typing import Any, NamedTuple

import numpy as np
from keras import ops


class Neighbors(NamedTuple):
    """The rows of a table that are most similar to some vectors, the first first.

    Attributes:
        ids: int64 `(Q, k)`. Numbers of the rows.
        cosines: float64 `(Q, k)`.
    """

    ids: np.ndarray
    cosines: np.ndarray


class PrincipalComponents(NamedTuple):
    """Vectors in the directions of their largest variance.

    Attributes:
        coordinates: float64 `(N, k)`, with the mean at the origin.
        shares: float64 `(k,)`. Share of the variance in each direction.
    """

    coordinates: np.ndarray
    shares: np.ndarray


def normalize_rows(vectors: np.typing.ArrayLike) -> np.ndarray:
    """Scales vectors to length 1, float64; a zero vector stays zero."""
    rows = np.asarray(vectors, np.float64)
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1.0)


def mean_cosine(vectors: np.typing.ArrayLike) -> float:
    """Computes the mean cosine of all pairs of different vectors.

    Of random occurrences of words it is the anisotropy of a layer; of the occurrences
    of one word, the word's self-similarity.

    Args:
        vectors: `(N, D)`, at least two.

    Returns:
        From -1 to 1; NaN for fewer than two vectors.

    Example:
    >>> round(mean_cosine([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0]]), 4)
    0.3333

    References:
        - Ethayarajh, 2019, definition 1
    """
    rows = normalize_rows(vectors)
    number = len(rows)
    if number < 2:
        return float("nan")
    # The square of a sum of vectors is the sum over all pairs.
    pairs = np.sum(rows.sum(axis=0) ** 2) - np.sum(rows**2)
    return float(pairs / (number * (number - 1)))


def similarity_to_mean(states: Any, real: Any) -> Any:
    """Computes the mean cosine of a text's tokens with the mean of their vectors.

    It is the intra-sentence similarity, if a text is a sentence.

    Args:
        states: float `(B, T, D)`.
        real: `(B, T)`, 1 for the tokens that count, at least one in a text.

    Returns:
        float32 `(B,)`.

    Example:
    >>> states = np.array([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
    >>> ops.convert_to_numpy(similarity_to_mean(states, np.array([[1, 1, 0]]))).round(4)
    array([0.7071], dtype=float32)

    References:
        - Ethayarajh, 2019, definition 2
    """
    weights = ops.expand_dims(ops.cast(real, "float32"), 2)
    vectors = ops.cast(states, "float32") * weights
    mean = ops.sum(vectors, axis=1, keepdims=True)  # its length does not matter
    cosines = ops.sum(ops.normalize(vectors) * ops.normalize(mean), axis=-1)
    return ops.sum(cosines, axis=1) / ops.sum(weights, axis=(1, 2))


def explainable_variance(vectors: np.typing.ArrayLike) -> float:
    """Computes the largest share of vectors that one direction explains.

    That is the square of the largest singular value, divided by the sum of squares of
    all: a word with a share of 1 could as well have one vector for all contexts. The
    vectors are not centered, as by definition. The fewer they are the larger it is, so
    that a baseline needs as many vectors.

    Args:
        vectors: `(N, D)`.

    Returns:
        From `1 / min(N, D)` to 1; NaN if all are zero.

    Example:
    >>> explainable_variance([[3.0, 0.0], [0.0, 1.0]])
    0.9

    References:
        - Ethayarajh, 2019, definition 3
    """
    squares = singular_values(vectors) ** 2
    total = squares.sum()
    return float(squares[0] / total) if total > 0 else float("nan")


def singular_values(
    vectors: np.typing.ArrayLike, *, centered: bool = False
) -> np.ndarray:
    """Computes singular values of a matrix, the largest first: float64 `(min(N, D),)`.

    Args:
        vectors: `(N, D)`.
        centered: Subtract the mean of the vectors first.
    """
    matrix = np.asarray(vectors, np.float64)
    if centered:
        matrix = matrix - matrix.mean(axis=0)
    return np.linalg.svd(matrix, compute_uv=False)


def effective_rank(values: np.typing.ArrayLike) -> float:
    """Computes the exponential of the entropy of the singular values.

    The singular values themselves are normalized to a sum of 1, as in the definition,
    not their squares.

    Args:
        values: `(K,)`, not negative.

    Returns:
        From 1 to `K`; 0 if all are 0.

    Example:
    >>> round(effective_rank([3.0, 1.0]), 3)
    1.755

    References:
        - [Roy and Vetterli, 2007](https://ieeexplore.ieee.org/document/7098875)
    """
    sigma = np.asarray(values, np.float64)
    if not sigma.any():
        return 0.0
    shares = sigma[sigma > 0] / sigma.sum()
    return float(np.exp(-np.sum(shares * np.log(shares))))


def compute_participation(values: np.ndarray) -> np.ndarray:
    """Computes how many directions share a matrix: the participation ratio.

    It is `(sum of squares)^2 / sum of fourth powers` of the singular values: their
    number if they are equal, and 1 if one of them is all there is.

    Args:
        values: `(..., K)`, singular values.

    Returns:
        `(...)`; 0 where all are 0.

    Example:
    >>> compute_participation(np.array([[3.0, 1.0], [2.0, 2.0]])).round(4)
    array([1.2195, 2.    ])
    """
    squares = values**2
    total = (squares**2).sum(axis=-1)
    return squares.sum(axis=-1) ** 2 / np.where(total > 0, total, 1)


def find_neighbors(
    table: np.typing.ArrayLike, queries: np.typing.ArrayLike, k: int
) -> Neighbors:
    """Finds the rows of a table with the largest cosine to some of its rows.

    Args:
        table: `(V, D)`.
        queries: int `(Q,)`. Numbers of rows; a row is no neighbor of itself.
        k: Number of neighbors, at most `V - 1`.

    Example:
    >>> find_neighbors([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]], [0], k=1).ids
    array([[2]])
    """
    rows, queries = normalize_rows(table), np.asarray(queries)
    cosines = rows[queries] @ rows.T
    cosines[np.arange(len(queries)), queries] = -np.inf
    ids = _find_largest(cosines, min(k, len(rows) - 1))
    return Neighbors(ids, np.take_along_axis(cosines, ids, axis=1))


def solve_analogies(
    table: np.typing.ArrayLike, analogies: np.typing.ArrayLike, k: int = 1
) -> Neighbors:
    """Completes analogies: `a` is to `b` as `c` is to the result.

    The result is the row most similar to `b - a + c`, all of length 1, and none of the
    three. Without the last condition it would often be `b` or `c`.

    Args:
        table: `(V, D)`.
        analogies: int `(Q, 3)`. Numbers of the rows `a`, `b` and `c`.
        k: Number of results, at most `V - 3`.

    Example:
    >>> table = [[1.0, 0.0], [1.0, 1.0], [0.0, 0.1], [0.0, 3.0], [-1.0, 2.0]]
    >>> solve_analogies(table, [[0, 1, 2]]).ids
    array([[3]])

    References:
        - [Mikolov et al., 2013](https://aclanthology.org/N13-1090), section 4
        - [Levy and Goldberg, 2014](https://aclanthology.org/W14-1618), section 3
    """
    rows, analogies = normalize_rows(table), np.asarray(analogies).reshape(-1, 3)
    a, b, c = (rows[column] for column in analogies.T)
    cosines = normalize_rows(b - a + c) @ rows.T
    np.put_along_axis(cosines, analogies, -np.inf, axis=1)
    ids = _find_largest(cosines, min(k, len(rows) - 3))
    return Neighbors(ids, np.take_along_axis(cosines, ids, axis=1))


def principal_components(vectors: np.typing.ArrayLike, k: int) -> PrincipalComponents:
    """Projects vectors to the directions of their largest variance.

    The sign of a direction is chosen so that its coordinate of largest magnitude is
    positive, and the same vectors have the same picture.

    Args:
        vectors: `(N, D)`.
        k: Number of directions; coordinates beyond the rank are 0.

    Example:
    >>> found = principal_components([[0.0, 7.0], [1.0, 7.0], [5.0, 7.0]], k=1)
    >>> found.coordinates.round(2).ravel().tolist(), found.shares.tolist()
    ([-2.0, -1.0, 3.0], [1.0])
    """
    matrix = np.asarray(vectors, np.float64)
    left, sigma, _ = np.linalg.svd(matrix - matrix.mean(axis=0), full_matrices=False)
    coordinates = left * sigma
    largest = np.argmax(np.abs(coordinates), axis=0)[None]
    coordinates = coordinates * np.where(
        np.take_along_axis(coordinates, largest, axis=0) < 0, -1.0, 1.0
    )
    total = np.sum(sigma**2)
    shares = sigma**2 / (total if total > 0 else 1.0)
    missing = max(0, k - len(sigma))
    return PrincipalComponents(
        np.pad(coordinates[:, :k], ((0, 0), (0, missing))),
        np.pad(shares[:k], (0, missing)),
    )


def _find_largest(values: np.ndarray, k: int) -> np.ndarray:
    """Returns the numbers of the `k` largest values of each row, the first first."""
    if k <= 0:
        return np.zeros((len(values), 0), np.int64)
    found = np.argpartition(-values, k - 1, axis=1)[:, :k]
    order = np.argsort(
        -np.take_along_axis(values, found, axis=1), axis=1, kind="stable"
    )
    return np.take_along_axis(found, order, axis=1)
