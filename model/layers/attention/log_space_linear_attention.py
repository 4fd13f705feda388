"""Causal linear attention in log space, from the logarithms of features.

The features of two keys may differ by so many orders of magnitude that one vanishes in
float32. Scaled by the largest feature of a row, early keys would vanish because of a
later key that their queries do not attend to. So everything is scaled by what a query
attends to: pairs within a chunk by the largest feature of each of the two tokens and by
the query's largest pair, and sums of earlier chunks by the largest value of each
feature so far.

Shapes are those of `transbeam.model.layers.attention.chunked_linear_attention`.
"""

from typing import Any, NamedTuple

from keras import ops

from transbeam.model.layers.attention import chunked_linear_attention
from transbeam.model.layers.attention.blockwise import (
    by_group,
    by_head,
    cut_heads,
    cut_ids,
    cut_queries,
    join_queries,
)

# The logarithm of zero, and the lower bound of a scale's logarithm.
NOTHING, LOWEST = -1e30, -1e20
# Added to the product of two tokens' scaled features before its logarithm, whose
# gradient divides by it.
SMALLEST = 1e-30


class Sums(NamedTuple):
    """Sums of features times values, with each feature scaled by its largest value.

    Attributes:
        peak: float32 `(B, G, F)`, the logarithm of the largest value; or for each
            chunk, `(N, B, G, F)`.
        sums: float32 `(B, G, F, V)` or `(N, B, G, F, V)`.
    """

    peak: Any
    sums: Any


def attend_by_exponents(log_query, log_key, value, ids, *, packed: bool, before=None):
    """Sums values for each query, weighted by products of query and key features.

    Args:
        log_query: float32 `(B, T, H, F)`.
        log_key: float32 `(B, T, G, F)`.
        value: float32 `(B, T, G, V)`.
        ids: int32 `(B, T)`, the documents of packed rows; in other rows 1 for a real
            token; 0 for padding.
        packed: True if rows may hold several documents.
        before: `Sums` of the keys before the row, if it is one document; None for none.

    Returns:
        `(B, T, H, V)`, scaled by each query's largest product; and the `Sums` including
        the row's own, which are meaningless for packed rows.
    """
    length, groups = ops.shape(log_query)[1], log_key.shape[2]
    chunk = chunked_linear_attention.CHUNK
    size = min(chunk, length) if isinstance(length, int) else chunk
    rows = cut_queries(log_query, groups, size)  # (N, B, G, R C, F)
    keys, values = cut_heads(log_key, size), cut_heads(value, size)  # (N, B, G, C, F|V)
    ids = cut_ids(ids, size)  # (N, B, C)
    links = (
        chunked_linear_attention.follow_documents(ids, reverse=False)
        if packed
        else None
    )
    counting = ops.not_equal(ids, 0) if links is None else links.leaving
    own = _sum_up(keys, values, counting)
    before, after = _carry(own, before, None if links is None else links.through)

    far = rows + ops.expand_dims(before.peak, 3)
    if links is not None:
        reading = ops.tile(_marks(links.reading), (1, 1, 1, rows.shape[3] // size, 1))
        far = ops.where(reading, far, NOTHING)

    pairs, scale = _pairs(rows, keys)
    seen = chunked_linear_attention.seen_in_chunk(size, ids, causal=True)
    pairs = by_head(pairs, size)  # (N, B, H, C, C)
    scale = ops.where(seen, by_head(scale, size), NOTHING)
    # The scale cancels out, so it needs no gradient.
    highest = ops.max(scale + ops.log(pairs), axis=-1, keepdims=True, initial=LOWEST)
    highest_far = ops.max(far, axis=-1, keepdims=True, initial=LOWEST)
    highest = ops.maximum(highest, by_head(highest_far, size))
    highest = ops.stop_gradient(highest)

    pairs = pairs * ops.exp(scale - highest)
    outputs = ops.matmul(by_group(pairs, groups), values)  # (N, B, G, R C, V)
    far = ops.exp(far - by_group(highest, groups))
    outputs = outputs + ops.matmul(far, before.sums)
    return join_queries(outputs, length, size), after


def _pairs(rows, keys):
    """Products of the features of a chunk's queries and keys: `(N, B, G, R C, C)`.

    Returns:
        The products of features, scaled by each token's largest feature, and the
        logarithm of the scale.
    """
    row_peak, key_peak = (
        ops.stop_gradient(ops.max(x, axis=-1, keepdims=True, initial=LOWEST))
        for x in (rows, keys)
    )
    keys = ops.swapaxes(ops.exp(keys - key_peak), -1, -2)
    pairs = ops.matmul(ops.exp(rows - row_peak), keys)
    return pairs + SMALLEST, row_peak + ops.swapaxes(key_peak, -1, -2)


def _sum_up(keys, values, counts) -> Sums:
    """Sums over each chunk, of the keys marked in `counts`, bool `(N, B, C)`."""
    keys = ops.where(_marks(counts), keys, NOTHING)
    peak = ops.stop_gradient(ops.max(keys, axis=3, keepdims=True, initial=LOWEST))
    features = ops.swapaxes(ops.exp(keys - peak), -1, -2)
    return Sums(ops.squeeze(peak, 3), ops.matmul(features, values))


def _carry(own: Sums, first: Sums | None, through) -> tuple[Sums, Sums]:
    """Computes the sums before each chunk, and those after the last.

    This is a parallel scan, as in `chunked_linear_attention`.

    Args:
        own: The sums of each chunk.
        first: The sums before the row; None for none.
        through: bool `(N, B, 1)`, true for chunks that pass on the sums before them;
            None if all do.
    """
    if first is None:
        first = Sums(ops.full_like(own.peak[0], LOWEST), ops.zeros_like(own.sums[0]))
    peak, sums = (
        ops.concatenate([ops.expand_dims(one, 0), more], axis=0)
        for one, more in zip(first, own, strict=True)
    )
    hands_on = ops.ones_like(peak[:, :, :1, :1], dtype="int32")  # (N + 1, B, 1, 1)
    if through is not None:
        through = ops.cast(ops.expand_dims(through, 3), "int32")
        hands_on = ops.concatenate([hands_on[:1], through], axis=0)

    step = 1
    while step < (peak.shape[0] or chunked_linear_attention.MOST_CHUNKS):
        earlier = chunked_linear_attention.shifted(peak, step, False, NOTHING)
        earlier = ops.where(hands_on > 0, earlier, NOTHING)
        highest = ops.maximum(peak, earlier)
        given = chunked_linear_attention.shifted(sums, step, False)
        sums = sums * _factor(peak, highest) + given * _factor(earlier, highest)
        peak = highest
        hands_on = hands_on * chunked_linear_attention.shifted(hands_on, step, False)
        step *= 2
    return Sums(peak[:-1], sums[:-1]), Sums(peak[-1], sums[-1])


def _factor(peak, highest):
    return ops.expand_dims(ops.exp(peak - highest), -1)


def _marks(flags):
    """Reshapes `(N, B, C)` to `(N, B, 1, C, 1)`."""
    return ops.expand_dims(ops.expand_dims(flags, 2), 4)
