"""Finds pairs of similar documents without comparing all pairs.

Locality-sensitive hashing ([Indyk & Motwani,
1998](https://doi.org/10.1145/276698.276876)): a signature is divided into bands, and
documents with equal values in a whole band share a bucket of that band. Documents in
the same bucket are compared by their whole signatures, and linked if they are similar.
"""

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from transbeam.pipeline.deduplication.minhash import constants

WINDOW = 16  # preceding documents of a bucket to compare with, besides the first
_MISSED_PAIR = 20.0  # cost of a missed pair, in needless comparisons
_STRETCH = 8192  # number of documents whose signatures are in memory at once


class Bands(NamedTuple):
    """The division of a signature: `count` bands of `rows` values each."""

    count: int
    rows: int

    def meet(self, similarity: np.ndarray) -> np.ndarray:
        """Computes the probability of agreement on at least one band, the "S-curve".

        Example:
        >>> Bands(16, 8).meet(np.array([0.5, 0.8])).round(3)
        array([0.061, 0.947])
        """
        return 1.0 - (1.0 - similarity**self.rows) ** self.count


@functools.cache
def choose_bands(similarity: float, num_hashes: int) -> Bands:
    """Chooses the bands whose S-curve best approximates a step at the threshold.

    Minimizes a weighted sum of the area above the curve at similarities over the
    threshold (missed pairs) and the area below the curve at similarities under the
    threshold (needless comparisons). As every candidate pair is verified, false
    positives cost only time, so the area of false positives has a much smaller weight
    than the area of false negatives.

    Example:
    >>> choose_bands(0.8, 128)
    Bands(count=16, rows=8)
    """

    def cost(bands: Bands) -> float:
        inside = (np.arange(1000) + 0.5) / 1000
        in_vain = bands.meet(similarity * inside)
        missed = 1.0 - bands.meet(similarity + (1.0 - similarity) * inside)
        before = similarity * float(in_vain.mean())
        return before + (1.0 - similarity) * float(missed.mean()) * _MISSED_PAIR

    cuts = [Bands(num_hashes // rows, rows) for rows in range(1, num_hashes + 1)]
    return min(cuts, key=cost)


def buckets(signatures: np.ndarray, bands: Bands) -> np.ndarray:
    """Computes the bucket of each document in each band.

    Args:
        signatures: uint32 `(N, num_hashes)`.
        bands: The division of the signatures into bands.

    Returns:
        uint64 `(bands.count, N)`; documents whose values in a band are all equal have
        the same bucket.
    """
    used = signatures[:, : bands.count * bands.rows].astype(np.uint64)
    cut = used.reshape(-1, bands.count, bands.rows)
    factors = constants("buckets", bands.rows) | np.uint64(1)
    return np.einsum("nbr,r->bn", cut, factors)


def similar_pairs(
    buckets: np.ndarray,
    look_up: Callable[[np.ndarray], np.ndarray],
    similarity: float,
) -> np.ndarray:
    """Finds the pairs of documents in the same bucket that have similar signatures.

    In a large bucket not every pair is compared, as a license in a million files would
    take 10^12 comparisons. Each document of a bucket is compared with the bucket's
    first document and with the `WINDOW` documents that precede it in the bucket. A pair
    of documents that are both more than `WINDOW` positions after the bucket's first
    document is not compared if both are similar to that document.

    Args:
        buckets: uint64 `(N,)`, the row of `buckets(...)` for this band; the documents
            are in the order of `distinct`.
        look_up: A function that maps indices of documents to their signatures, uint32
            `(n, num_hashes)`, such as `signatures.__getitem__` of an array, which may
            be memory-mapped. Each call requests some thousand rows.
        similarity: Documents are similar if at least this share of the values of their
            signatures is equal.

    Returns:
        int64 `(P, 2)`, pairs of document indices, the smaller index first.

    Example:
    >>> rows = np.array([[1, 2, 3, 4], [9, 9, 9, 9], [1, 2, 3, 5]], np.uint32)
    >>> similar_pairs(buckets(rows, Bands(2, 2))[0], rows.__getitem__, 0.75)
    array([[0, 2]])
    """
    members, heads = _members(buckets)
    like_head = np.zeros(len(members), np.bool_)
    found = [np.empty((0, 2), np.int64)]
    for low in range(0, len(members), _STRETCH):
        high = min(low + _STRETCH, len(members))
        begin = max(low - WINDOW, 0)
        # Only the first head can be before the window.
        rows = look_up(members[np.append(heads[low], np.arange(begin, high))])
        for left, right in _proposals(heads, like_head, low, high):
            there, here = np.maximum(left - begin + 1, 0), right - begin + 1
            equal = np.count_nonzero(rows[there] == rows[here], axis=1)
            similar = equal >= similarity * rows.shape[1]
            left, right = left[similar], right[similar]
            like_head[right[heads[right] == left]] = True
            found.append(np.stack([members[left], members[right]], axis=1))
    return np.concatenate(found)


def _members(buckets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the documents that share a bucket, sorted by bucket, then by index.

    Returns:
        The indices of the documents, and for each the position in this array at which
        its bucket begins.
    """
    order = np.argsort(buckets, kind="stable")
    in_order = buckets[order]
    as_before = np.append(False, in_order[1:] == in_order[:-1])[: len(order)]
    shared = as_before | np.append(as_before[1:], False)[: len(order)]
    positions = np.arange(np.count_nonzero(shared))
    heads = np.maximum.accumulate(np.where(as_before[shared], 0, positions))
    return order[shared], heads


def _proposals(
    heads: np.ndarray, like_head: np.ndarray, low: int, high: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields candidate pairs of the positions `low` to `high` with earlier positions.

    Pairs with the first document of the bucket are yielded first; the caller then
    updates `like_head` before it requests the next pairs.
    """
    here = np.arange(low, high)
    right = here[heads[here] < here]
    yield heads[right], right
    for distance in range(1, WINDOW + 1):
        right = here[here - distance > heads[here]]
        left = right - distance
        far = right - heads[right] > WINDOW
        useful = ~(far & like_head[left] & like_head[right])
        yield left[useful], right[useful]
