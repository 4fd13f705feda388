"""Linear attention in chunks of tokens, with a state passed from chunk to chunk.

Within a chunk all pairs of queries and keys are multiplied. Keys of other chunks enter
as sums of features times values. Only the document in which a chunk starts has keys in
earlier chunks, so a single sum is passed from chunk to chunk, until its document ends.

`attend_by_exponents` computes the same in log space, from the logarithms of features.
The features of two keys may differ by so many orders of magnitude that the smaller one
underflows in float32. If all features were scaled by the largest one in the row, early
keys could underflow because of a large later key that their queries do not attend to.
So each scale factor depends only on the query and on keys that it attends to: within a
chunk, products of features are scaled by the largest feature of the query and of the
key, and by the query's largest product; sums over earlier chunks are scaled, for each
feature, by its largest value so far.

Shapes: `B` batch, `T` length, `N` chunks of `C` tokens, `H` query heads, `G` heads of
keys and values, `F` features, `V` value width.
"""

from typing import Any, NamedTuple

from keras import ops

from transbeam.model.layers.attention.blockwise import (
    by_group,
    by_head,
    cut_heads,
    cut_ids,
    cut_queries,
    join_queries,
)

# A token costs as much as `CHUNK` keys within its chunk, and as `F` between chunks.
CHUNK = 128
# Largest number of chunks if the length is only known at run time.
MOST_CHUNKS = 2**13


class Links(NamedTuple):
    """Masks for passing sums between chunks of the same document.

    Attributes:
        leaving: bool `(N, B, C)`, tokens whose document continues in the next chunk.
        through: bool `(N, B, 1)`, chunks that contain a single document, which
            continues in the next chunk.
        reading: bool `(N, B, C)`, tokens of the same document as the chunk's first
            token.
    """

    leaving: Any
    through: Any
    reading: Any


def attend_in_chunks(query, key, value, ids=None, *, causal: bool, sums=None):
    """Sums values for each query, weighted by products of query and key features.

    Args:
        query: float32 `(B, T, H, F)`.
        key: float32 `(B, T, G, F)`, zeros for padding.
        value: float32 `(B, T, G, V)`.
        ids: int32 `(B, T)`, the documents of packed rows; None if each row is one
            document.
        causal: If true, queries do not attend to later keys.
        sums: float32 `(B, G, F, V)`, the sums over the keys of the tokens that precede
            the row, if each row is one document; None if no tokens precede it.

    Returns:
        `(B, T, H, V)`, and the sums over keys up to the end of the row; None instead of
        sums for packed rows.
    """
    length, groups = ops.shape(query)[1], key.shape[2]
    size = min(CHUNK, length) if isinstance(length, int) else CHUNK
    rows = cut_queries(query, groups, size)  # (N, B, G, R C, F)
    keys, values = cut_heads(key, size), cut_heads(value, size)  # (N, B, G, C, F|V)
    ids = None if ids is None else cut_ids(ids, size)  # (N, B, C)

    pairs = by_head(ops.matmul(rows, ops.swapaxes(keys, -1, -2)), size)
    pairs = ops.where(seen_in_chunk(size, ids, causal), pairs, 0.0)  # (N, B, H, C, C)
    outputs = ops.matmul(by_group(pairs, groups), values)  # (N, B, G, R C, V)

    if ids is None:
        before, sums = _carry_all(_chunk_sums(keys, values), sums)
        outputs = outputs + ops.matmul(rows, before)
        return join_queries(outputs, length, size), sums
    outputs = outputs + _from_other_chunks(rows, keys, values, ids, reverse=False)
    if not causal:
        outputs = outputs + _from_other_chunks(rows, keys, values, ids, reverse=True)
    return join_queries(outputs, length, size), None


def seen_in_chunk(size: int, ids, causal: bool):
    """Marks the keys that each query attends to within its chunk.

    The mask broadcasts to `(N, B, H, C, C)`.
    """
    index = ops.arange(size, dtype="int32")
    seen = ops.expand_dims(index, 1) >= (index if causal else 0)
    if ids is None:
        return seen
    same = ops.equal(ops.expand_dims(ids, 3), ops.expand_dims(ids, 2))
    same = ops.logical_and(same, ops.expand_dims(ops.not_equal(ids, 0), 2))
    return ops.expand_dims(ops.logical_and(same, seen), 2)


def _chunk_sums(keys, values):
    """Sums features times values over a chunk: `(N, B, G, F, V)`."""
    return ops.matmul(ops.swapaxes(keys, -1, -2), values)


def _carry_all(chunk_sums, sums):
    """Running sums at each chunk's start, `(N, B, G, F, V)`, and at the row's end."""
    first = ops.zeros_like(chunk_sums[0]) if sums is None else sums
    sums = ops.concatenate([ops.expand_dims(first, 0), chunk_sums], axis=0)
    sums = ops.cumsum(sums, axis=0)
    return sums[:-1], sums[-1]


def _from_other_chunks(rows, keys, values, ids, reverse: bool):
    """Computes outputs from keys of earlier chunks, or of later ones if `reverse`.

    Args:
        rows: `(N, B, G, R C, F)`.
        keys: `(N, B, G, C, F)`.
        values: `(N, B, G, C, V)`.
        ids: int32 `(N, B, C)`.
        reverse: If true, sums are passed from the last chunk to the first.

    Returns:
        `(N, B, G, R C, V)`.
    """
    leaving, through, reading = follow_documents(ids, reverse)

    def mark(flags):  # (N, B, S) to (N, B, 1, S, 1)
        return ops.expand_dims(ops.expand_dims(ops.cast(flags, "float32"), 2), 4)

    own = _chunk_sums(keys * mark(leaving), values)  # (N, B, G, F, V)
    sums = _carry(own, mark(through), reverse)
    shared = rows.shape[3] // ids.shape[2]
    rows = rows * ops.tile(mark(reading), (1, 1, 1, shared, 1))
    return ops.matmul(rows, shifted(sums, 1, reverse))


def follow_documents(ids, reverse: bool) -> Links:
    """Computes the masks of documents that continue from chunk to chunk.

    Args:
        ids: int32 `(N, B, C)`.
        reverse: If true, sums are passed from the last chunk to the first.
    """
    enter, leave = ids[:, :, :1], ids[:, :, -1:]  # (N, B, 1)
    if reverse:
        enter, leave = leave, enter
    next_enter = shifted(enter, 1, not reverse)
    goes_on = ops.logical_and(ops.equal(leave, next_enter), ops.not_equal(leave, 0))
    return Links(
        leaving=ops.logical_and(ops.equal(ids, leave), goes_on),
        through=ops.logical_and(ops.equal(enter, leave), goes_on),
        reading=ops.logical_and(ops.equal(ids, enter), ops.not_equal(ids, 0)),
    )


def _carry(own, through, reverse: bool):
    """Computes the state that each chunk passes to the next.

    This is a parallel scan with strides of 1, 2, 4, ... chunks: a loop over chunks
    would not compile with XLA on TensorFlow, and a difference of cumulative sums would
    lose precision for small documents after large ones.

    Args:
        own: float32 `(N, B, G, F, V)`.
        through: float32 `(N, B, 1, 1, 1)`, 1 or 0.
        reverse: If true, the state is passed to the previous chunk in the row.

    Returns:
        As `own`.
    """
    step = 1
    chunks = own.shape[0] or MOST_CHUNKS
    while step < chunks:
        own = own + through * shifted(own, step, reverse)
        through = through * shifted(through, step, reverse)
        step *= 2
    return own


def shifted(x, steps: int, reverse: bool, fill: float = 0):
    """Shifts by `steps` chunks, forward or in reverse, and fills the gap with `fill`.

    Example:
    >>> ops.convert_to_numpy(shifted(ops.array([1, 2, 3]), 1, False))
    array([0, 1, 2], dtype=int32)
    """
    chunks = ops.shape(x)[0]
    steps = (
        min(steps, chunks) if isinstance(chunks, int) else ops.minimum(steps, chunks)
    )
    none = [(0, 0)] * (len(x.shape) - 1)
    if reverse:
        return ops.pad(x[steps:], [(0, steps), *none], constant_values=fill)
    return ops.pad(x[: chunks - steps], [(steps, 0), *none], constant_values=fill)


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
        before: `Sums` over the keys of the tokens that precede the row, if each row is
            one document; None if no tokens precede it.

    Returns:
        `(B, T, H, V)`, scaled by each query's largest product; and the `Sums` over keys
        up to the end of the row, which are meaningless for packed rows.
    """
    length, groups = ops.shape(log_query)[1], log_key.shape[2]
    size = min(CHUNK, length) if isinstance(length, int) else CHUNK
    rows = cut_queries(log_query, groups, size)  # (N, B, G, R C, F)
    keys, values = cut_heads(log_key, size), cut_heads(value, size)  # (N, B, G, C, F|V)
    ids = cut_ids(ids, size)  # (N, B, C)
    links = follow_documents(ids, reverse=False) if packed else None
    counting = ops.not_equal(ids, 0) if links is None else links.leaving
    own = _sum_up(keys, values, counting)
    before, after = _carry_exponents(
        own, before, None if links is None else links.through
    )

    far = rows + ops.expand_dims(before.peak, 3)
    if links is not None:
        reading = ops.tile(_marks(links.reading), (1, 1, 1, rows.shape[3] // size, 1))
        far = ops.where(reading, far, NOTHING)

    pairs, scale = _pairs(rows, keys)
    seen = seen_in_chunk(size, ids, causal=True)
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
    """Sums over each chunk's keys where `counts`, bool `(N, B, C)`, is true."""
    keys = ops.where(_marks(counts), keys, NOTHING)
    peak = ops.stop_gradient(ops.max(keys, axis=3, keepdims=True, initial=LOWEST))
    features = ops.swapaxes(ops.exp(keys - peak), -1, -2)
    return Sums(ops.squeeze(peak, 3), ops.matmul(features, values))


def _carry_exponents(own: Sums, first: Sums | None, through) -> tuple[Sums, Sums]:
    """Computes the running sums at the start of each chunk and at the end of the row.

    This is a parallel scan, as in `_carry`.

    Args:
        own: The sums of each chunk.
        first: The sums over the tokens that precede the row; None if no tokens precede
            it.
        through: bool `(N, B, 1)`, true for chunks that also pass the sums of earlier
            chunks to the next chunk; None if all chunks do.
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
    while step < (peak.shape[0] or MOST_CHUNKS):
        earlier = shifted(peak, step, False, NOTHING)
        earlier = ops.where(hands_on > 0, earlier, NOTHING)
        highest = ops.maximum(peak, earlier)
        given = shifted(sums, step, False)
        sums = sums * _factor(peak, highest) + given * _factor(earlier, highest)
        peak = highest
        hands_on = hands_on * shifted(hands_on, step, False)
        step *= 2
    return Sums(peak[:-1], sums[:-1]), Sums(peak[-1], sums[-1])


def _factor(peak, highest):
    return ops.expand_dims(ops.exp(peak - highest), -1)


def _marks(flags):
    """Reshapes `(N, B, C)` to `(N, B, 1, C, 1)`."""
    return ops.expand_dims(ops.expand_dims(flags, 2), 4)
