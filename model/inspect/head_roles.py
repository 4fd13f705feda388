"""Statistics of attention from which roles of heads are read.

Two heads without parameters are references: one that attends to all keys alike, and one
whose weights fall with the distance. What a role is must be more than theirs.

Shapes: `B` batch, `H` heads, `T` tokens, `K` offsets, `D` width of vectors. `A` is the
number of heads, or 1 if all heads see the same keys.

References:
    - [Voita et al., 2019](https://arxiv.org/abs/1905.09418), section 5
    - [Kovaleva et al., 2019](https://arxiv.org/abs/1908.08593), section 4.1
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from transbeam.model.inspect.rank_correlation import correlate_ranks


class RoleSums(NamedTuple):
    """Sums over the queries of each text, and how many queries they are of.

    Queries are the text's tokens but the first of the row and special tokens.

    Attributes:
        offset: `(B, H, K)`, weights at each offset.
        offset_queries: `(B, H, K)`, queries that can attend there.
        distant: `(B, H)`, weights of distant tokens of the text.
        distant_queries: `(B, H)`, queries that can attend to one.
        delimiter: `(B, H)`, weights of special tokens and the first token.
        first: `(B, H)`, weights of the first token alone.
        queries: `(B, H)`, all queries.
        semantic: `(B, H)`, rank correlations of weights and similarities.
        semantic_queries: `(B, H)`, queries that have one.
    """

    offset: Any
    offset_queries: Any
    distant: Any
    distant_queries: Any
    delimiter: Any
    first: Any
    queries: Any
    semantic: Any
    semantic_queries: Any


def make_reference_heads(allowed: Any) -> tuple[Any, Any]:
    """Returns the weights of two heads: uniform, and falling with the distance.

    Args:
        allowed: bool `(B, A, T, T)`, true where a query may attend to a key.

    Returns:
        Both float32 `(B, A, T, T)`; the second head's weights are proportional to
        `1 / (1 + |i - j|)`.

    Example:
    >>> heads = make_reference_heads(ops.ones((1, 1, 2, 2), dtype="bool"))
    >>> [ops.convert_to_numpy(head)[0, 0, 0].round(3).tolist() for head in heads]
    [[0.5, 0.5], [0.6669999957084656, 0.3330000042915344]]
    """
    allowed = ops.cast(allowed, "float32")
    nearness = 1.0 / (1.0 + ops.cast(_distances(allowed), "float32"))

    def normalize(weights):
        total = ops.sum(weights, axis=-1, keepdims=True)
        return weights / ops.maximum(total, keras.config.epsilon())

    return normalize(allowed), normalize(allowed * nearness)


def sum_role_statistics(
    probabilities: Any,
    allowed: Any,
    is_text: Any,
    similarity: Any,
    *,
    offsets: Sequence[int],
    far: int,
) -> RoleSums:
    """Sums what roles are read from, over the queries of each text.

    Args:
        probabilities: `(B, H, T, T)`.
        allowed: bool `(B, A, T, T)`, true where a query may attend to a key.
        is_text: bool `(B, T)`, false for special tokens and padding.
        similarity: `(B, T, T)`, of the tokens' input vectors, as computed by
            `compare_vectors`.
        offsets: The offsets, such as -1 for the previous token.
        far: Tokens more than this number of tokens away are distant.
    """
    distance = _distances(allowed)
    position = ops.arange(ops.shape(allowed)[-1])
    query = ops.cast(ops.logical_and(is_text, position > 0), "float32")
    # Keys of each query: a text's token that is distant, and all but the text's.
    is_key = ops.logical_and(allowed, is_text[:, None, None])
    distant = ops.logical_and(is_key, distance > far)
    delimiter = ops.logical_or(ops.logical_not(is_text), position == 0)
    delimiter = ops.logical_and(allowed, delimiter[:, None, None])
    weights = ops.cast(probabilities, "float32") * query[:, None, :, None]

    # At an offset there is one key at most, so that a mask of its pairs sums weights.
    shifts = position[None, :] - position[:, None]
    at = ops.cast(ops.convert_to_tensor(offsets)[:, None, None] == shifts, "float32")
    pairs = ops.cast(allowed, "float32") * query[:, None, :, None]

    others = ops.logical_and(is_key, distance > 0)
    correlation, defined = correlate_ranks(probabilities, similarity[:, None], others)
    defined = ops.cast(defined, "float32") * query[:, None]
    has_distant = ops.cast(ops.any(distant, axis=-1), "float32")
    none = ops.zeros_like(weights[..., 0, 0])  # of each head
    return RoleSums(
        offset=ops.einsum("bhij,kij->bhk", weights, at),
        offset_queries=ops.einsum("bhij,kij->bhk", pairs, at) + none[..., None],
        distant=_sum_pairs(weights, distant),
        distant_queries=ops.sum(query[:, None] * has_distant, axis=-1) + none,
        delimiter=_sum_pairs(weights, delimiter),
        first=ops.sum(weights[..., 0], axis=-1),
        queries=ops.sum(query, axis=-1)[:, None] + none,
        semantic=ops.sum(correlation * defined, axis=-1),
        semantic_queries=ops.sum(defined, axis=-1),
    )


def compare_vectors(vectors: Any) -> Any:
    """Computes the cosine similarity of all pairs of vectors.

    Args:
        vectors: `(B, T, D)`.

    Returns:
        float32 `(B, T, T)`; 0 for a vector of length 0.

    Example:
    >>> found = compare_vectors(ops.array([[[3.0, 4.0], [4.0, 3.0]]]))
    >>> ops.convert_to_numpy(found)[0].round(2)
    array([[1.  , 0.96],
           [0.96, 1.  ]], dtype=float32)
    """
    vectors = ops.cast(vectors, "float32")
    length = ops.sqrt(ops.sum(vectors * vectors, axis=-1, keepdims=True))
    unit = vectors / ops.maximum(length, keras.config.epsilon())
    return ops.matmul(unit, ops.transpose(unit, (0, 2, 1)))


def _distances(pairs: Any) -> Any:
    position = ops.arange(ops.shape(pairs)[-1])
    return ops.abs(position[:, None] - position[None, :])


def _sum_pairs(weights: Any, pairs: Any) -> Any:
    return ops.sum(ops.where(pairs, weights, 0.0), axis=(-2, -1))
