"""Sampling of tokens: per-request random numbers and filtered distributions.

A random number is a hash of the request's seed, the token's index in the text and its
purpose, in 32-bit integer arithmetic, which is the same everywhere. Stateful and
TensorFlow's stateless generators give other numbers when the function is compiled, when
the backend changes, or when the request is batched with others.

Every filter takes scores `(B, V)` in float32 and sets those of excluded tokens to
`NEVER`; equal scores are kept or excluded together.
"""

from typing import Any

from keras import ops

from transbeam.configs.schema.generation import SamplingConfig
from transbeam.model.generation.logits_processors import NEVER

# Purposes of random numbers: different purposes at one index need different numbers.
CHOICE, DRAFT, ACCEPTANCE, CORRECTION = range(4)

_GOLDEN = 0x9E3779B9


def random_bits(
    seeds: Any, position: Any, purpose: int, size: int | None = None
) -> Any:
    """Uniformly distributed 32-bit integers.

    Args:
        seeds: int `(B,)`, one for each row.
        position: int or int32 tensor, scalar or `(B,)`: the index of the new token.
        purpose: The purpose of the random numbers, such as `CHOICE`.
        size: Number of random numbers per row; None for a single number.

    Returns:
        uint32 `(B, size)`, or `(B,)`.

    Example:
    >>> ops.convert_to_numpy(random_bits(ops.array([1, 2]), 0, CHOICE)).tolist()
    [3596746518, 580596747]

    References:
        - [Wellons, 2018](https://nullprogram.com/blog/2018/07/31/), "lowbias32"
    """
    position = ops.cast(ops.convert_to_tensor(position, "int32"), "uint32")
    bits = _mix(_unsigned(_GOLDEN) + ops.cast(seeds, "uint32"))
    bits = _mix(bits + position)
    bits = _mix(bits + _unsigned(purpose))
    if size is None:
        return bits
    columns = ops.cast(ops.arange(size, dtype="int32"), "uint32")
    return _mix(ops.expand_dims(bits, 1) + ops.expand_dims(_mix(columns), 0))


def random_uniform(
    seeds: Any, position: Any, purpose: int, size: int | None = None
) -> Any:
    """Uniform float32 in the open interval (0, 1); arguments as `random_bits`.

    Example:
    >>> float(random_uniform(ops.array([1]), 0, CHOICE)[0])
    0.8374328017234802
    """
    numbers = ops.cast(random_bits(seeds, position, purpose, size), "float32")
    # Near 0 all 32 bits are kept; near 1 a float32 has 24, and must not round to 1.
    return ops.minimum(numbers * 2.0**-32 + 2.0**-33, 1.0 - 2.0**-24)


def random_gumbel(seeds: Any, position: Any, purpose: int, size: int) -> Any:
    """Gumbel noise, float32 `(B, size)`; arguments as `random_bits`.

    The argmax of logits plus Gumbel noise is a sample from their softmax.
    """
    # The largest noise decides, and comes from the smallest of these numbers, so these
    # need float32's full resolution near 0.
    waiting = -ops.log1p(-random_uniform(seeds, position, purpose, size))
    return -ops.log(waiting)


def _mix(bits):
    bits = ops.bitwise_xor(bits, ops.bitwise_right_shift(bits, _unsigned(16)))
    bits = bits * _unsigned(0x7FEB352D)
    bits = ops.bitwise_xor(bits, ops.bitwise_right_shift(bits, _unsigned(15)))
    bits = bits * _unsigned(0x846CA68B)
    return ops.bitwise_xor(bits, ops.bitwise_right_shift(bits, _unsigned(16)))


def _unsigned(number):
    return ops.convert_to_tensor(number, "uint32")


# Sorting a vocabulary takes five times as long as finding this many highest scores,
# which nearly always contain all tokens to keep.
_FEW = 1024


def highest(scores: Any) -> Any:
    """Returns the token with the highest score, int32 `(B,)`.

    If several scores are equal, the smallest id is returned.
    """
    return ops.cast(ops.argmax(scores, axis=-1), "int32")


def keep_top_k(scores: Any, k: int) -> Any:
    """Keeps the `k` highest scores.

    Example:
    >>> kept = keep_top_k(ops.array([[1.0, 3.0, 2.0]]), 2)
    >>> ops.convert_to_numpy(kept > NEVER)
    array([[False,  True,  True]])
    """
    if k >= scores.shape[-1]:
        return scores
    return _keep(scores, ops.top_k(scores, k)[0][:, -1:])


def keep_top_p(scores: Any, p: Any, candidates: int = 0) -> Any:
    """Keeps the smallest set of the highest scores with total probability `p`.

    Args:
        scores: float32 `(B, V)`.
        p: float, or float32 `(B, 1)`. The highest score is always kept.
        candidates: Upper bound on the number of tokens not excluded yet; 0 if it is
            unknown.

    Example:
    >>> kept = keep_top_p(ops.log(ops.array([[0.1, 0.6, 0.3]])), 0.7)
    >>> ops.convert_to_numpy(kept > NEVER)
    array([[False,  True,  True]])

    References:
        - [Holtzman et al., 2020](https://arxiv.org/abs/1904.09751), section 3.1
    """
    size = scores.shape[-1]
    ordered = ops.top_k(scores, min(candidates or size, size))[0]
    probabilities = ops.softmax(ordered, axis=-1)
    before = ops.cumsum(probabilities, axis=-1) - probabilities
    # With p = 0 no sum is below p, but the highest score must be kept.
    inside = ops.where(before < p, ordered, ordered[:, :1])
    return _keep(scores, ops.min(inside, axis=-1, keepdims=True))


def keep_min_p(scores: Any, p: Any) -> Any:
    """Keeps tokens with at least `p` times the largest probability.

    Example:
    >>> kept = keep_min_p(ops.log(ops.array([[0.1, 0.6, 0.3]])), 0.5)
    >>> ops.convert_to_numpy(kept > NEVER)
    array([[False,  True,  True]])

    References:
        - [Nguyen et al., 2024](https://arxiv.org/abs/2407.01082), section 3
    """
    highest_score = ops.max(scores, axis=-1, keepdims=True)
    return _keep(scores, highest_score + ops.log(ops.cast(p, "float32")))


def keep_likeliest(scores: Any, top_k: Any, top_p: Any) -> Any:
    """Applies `keep_top_k`, then `keep_top_p`, with parameters per row.

    Args:
        scores: float32 `(B, V)`.
        top_k: int32 `(B,)`; 0 keeps all scores.
        top_p: float32 `(B,)`. The highest score is always kept.

    Example:
    >>> scores = ops.log(ops.array([[0.1, 0.6, 0.3], [0.1, 0.6, 0.3]]))
    >>> kept = keep_likeliest(scores, ops.array([1, 0]), ops.array([1.0, 0.7]))
    >>> ops.convert_to_numpy(kept > NEVER)
    array([[False,  True, False],
           [False,  True,  True]])
    """
    size = scores.shape[-1]
    few = min(_FEW, size)
    threshold, is_among_them = _lowest_kept(scores, top_k, top_p, few)
    if few < size:
        threshold = ops.cond(
            ops.all(is_among_them),
            lambda: threshold,
            lambda: _lowest_kept(scores, top_k, top_p, size)[0],
        )
    return _keep(scores, threshold)


def _lowest_kept(scores, top_k, top_p, candidates):
    """Finds the threshold of `keep_likeliest` from the `candidates` highest scores.

    For any number of candidates the same numbers are summed in the same order, so a
    row's threshold is independent of other rows that need more candidates.

    Returns:
        The threshold, float32 `(B, 1)`; and bool `(B, 1)`, true if more candidates
        could not change it.
    """
    size = scores.shape[-1]
    top_k, top_p = ops.expand_dims(top_k, 1), ops.expand_dims(top_p, 1)
    top_k = ops.where(ops.logical_or(top_k < 1, top_k > size), size, top_k)
    all_p = top_p >= 1  # sums of rounded numbers may exceed 1 too early
    ordered = ops.top_k(scores, candidates)[0]
    top = ordered[:, :1]
    last = ops.minimum(top_k, candidates) - 1
    lowest = ops.take_along_axis(ordered, last, axis=1)
    lowest = ops.where(top_k < size, lowest, NEVER)
    total = ops.where(scores < lowest, 0.0, ops.exp(scores - top))
    weights = ops.exp(ordered - top)
    before = (ops.cumsum(weights, axis=-1) - weights) / ops.sum(total, 1, keepdims=True)
    inside = ops.logical_and(ops.logical_or(all_p, before < top_p), ordered >= lowest)
    # With p = 0 no sum is below p, but the highest score must be kept.
    threshold = ops.min(ops.where(inside, ordered, top), axis=-1, keepdims=True)
    is_known = ops.logical_or(top_k <= candidates, top_k == size)  # as `lowest` is
    is_sure = ops.logical_and(is_known, ops.logical_not(inside[:, -1:]))
    all_of_them = ops.logical_and(top_k == size, all_p)
    threshold = ops.where(all_of_them, NEVER, threshold)
    return threshold, ops.logical_or(all_of_them, is_sure)


def shape_scores(scores: Any, config: SamplingConfig) -> Any:
    """Applies temperature, then top-k, top-p and min-p, in this order."""
    scores = ops.maximum(scores / config.temperature, NEVER)
    if config.top_k:
        scores = keep_top_k(scores, config.top_k)
    if config.top_p < 1:
        scores = keep_top_p(scores, config.top_p, candidates=config.top_k)
    if config.min_p > 0:
        scores = keep_min_p(scores, config.min_p)
    return scores


def draw(scores: Any, seeds: Any, position: Any, purpose: int) -> Any:
    """Samples a token from the softmax of the scores: int32 `(B,)`.

    Args:
        scores: float32 `(B, V)`.
        seeds: int `(B,)`.
        position: int32 scalar, the index of the new token.
        purpose: The purpose of the random numbers, such as `CHOICE`.
    """
    noise = random_gumbel(seeds, position, purpose, scores.shape[-1])
    return highest(scores + noise)


def _keep(scores, threshold):
    return ops.where(scores < threshold, NEVER, scores)
