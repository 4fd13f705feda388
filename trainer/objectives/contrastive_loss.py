"""Multiple negatives ranking loss: cross-entropy of scaled cosine similarities.

    loss_i = -log( exp(s cos(a_i, b_i)) / sum over candidates c of exp(s cos(a_i, c)) )

The candidates of the text `a_i` are its partner `b_i`, its own hard negative, and the
partners and hard negatives of the other pairs, except of those that share a text with
its pair: an equal text is no negative. The effect is that of batches without equal
texts, as sentence-transformers' batch sampler `NO_DUPLICATES` makes them.

References:
    - [Henderson et al., 2017](https://arxiv.org/abs/1705.00652), section 4.4
    - `MultipleNegativesRankingLoss` of
      [sentence-transformers](https://www.sbert.net/docs/package_reference/sentence_transformer/losses.html)
"""

from typing import Any, NamedTuple

from keras import ops

from transbeam.model.kernels.cross_entropy import cross_entropy

# Far below any scaled similarity, and finite, so that gradients are.
_EXCLUDED = -1e9


class RankedPairs(NamedTuple):
    """Losses and ranks of pairs, each `(B,)`.

    Attributes:
        costs: float32. The loss in nats.
        ranks: int32. The rank of the text's partner among its candidates, from 1.
            Candidates that are as similar as the partner are ranked before it.
    """

    costs: Any
    ranks: Any


def rank_pairs(
    vectors: Any, hashes: Any, scale: float, symmetric: bool = False
) -> RankedPairs:
    """Computes the loss of each pair, and the rank of each text's partner.

    Shapes: `B` pairs, `N` texts of a pair with its hard negative (2 or 3), `D` width.

    Args:
        vectors: float `(B, N, D)` of unit length: text, partner, hard negative.
        hashes: int32 `(B, N, 2)`. Equal texts have equal hashes; a missing hard
            negative has zeros.
        scale: Factor of the similarities.
        symmetric: Take the mean of this loss and of the one in which each partner
            ranks the texts.

    Example:
    >>> import numpy as np
    >>> vectors = np.array([[[1, 0], [0.8, 0.6]], [[0, 1], [0.6, 0.8]]], "float32")
    >>> hashes = np.array([[[1, 0], [2, 0]], [[3, 0], [4, 0]]], "int32")
    >>> found = rank_pairs(vectors, hashes, scale=5.0)
    >>> ops.convert_to_numpy(found.costs).round(4)  # log(1 + exp(-5 (0.8 - 0.6)))
    array([0.3133, 0.3133], dtype=float32)
    >>> ops.convert_to_numpy(found.ranks)
    array([1, 1], dtype=int32)
    """
    vectors = ops.cast(vectors, "float32")
    texts, partners = vectors[:, 0], vectors[:, 1]
    allowed = candidates(hashes)  # (B, C)
    number = ops.shape(texts)[0]
    own = ops.arange(number, dtype="int32")
    columns = range(1, vectors.shape[1])
    others = ops.concatenate([vectors[:, column] for column in columns], axis=0)
    similarities = ops.matmul(texts, ops.transpose(others))  # (B, C)
    partner = ops.take_along_axis(similarities, own[:, None], axis=1)
    # Relative to the partner's score, a small loss is not a difference of large sums.
    costs = _costs(scale * (similarities - partner), allowed, own)
    if symmetric:
        backward = ops.matmul(partners, ops.transpose(texts))  # (B, B)
        backward = scale * (backward - partner)
        costs = (costs + _costs(backward, allowed[:, :number], own)) / 2.0
    ahead = ops.logical_and(allowed, ops.greater_equal(similarities, partner))
    return RankedPairs(costs, ops.sum(ops.cast(ahead, "int32"), axis=1))


def candidates(hashes: Any) -> Any:
    """Computes the candidates of each text: bool `(B, C)`, partners, then negatives.

    Args:
        hashes: int32 `(B, N, 2)`; see `rank_pairs`.

    Example:
    >>> import numpy as np
    >>> hashes = np.array([[[1, 0], [2, 0]], [[3, 0], [2, 0]], [[4, 0], [5, 0]]])
    >>> ops.convert_to_numpy(candidates(hashes)).astype(int)  # two equal partners
    array([[1, 0, 1],
           [0, 1, 1],
           [1, 1, 1]])
    """
    hashes = ops.convert_to_tensor(hashes)
    number, texts = ops.shape(hashes)[0], hashes.shape[1]
    there = ops.any(ops.not_equal(hashes, 0), axis=-1)  # (B, N)
    shares = ops.zeros((number, number), "bool")
    for one in range(texts):
        for other in range(texts):
            same = ops.all(
                ops.equal(hashes[:, None, one], hashes[None, :, other]), axis=-1
            )
            shares = ops.logical_or(shares, ops.logical_and(same, there[:, None, one]))
    is_own = ops.eye(number, dtype="bool")
    compared = ops.logical_or(ops.logical_not(shares), is_own)
    return ops.concatenate(
        [
            ops.logical_and(compared, there[None, :, column])
            for column in range(1, texts)
        ],
        axis=1,
    )


def _costs(scores: Any, allowed: Any, own: Any) -> Any:
    """Cross-entropy of the own partner among the allowed candidates: float32 `(B,)`."""
    nats, _ = cross_entropy(ops.where(allowed, scores, _EXCLUDED), own)
    return nats
