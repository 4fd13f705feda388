"""Which documents to drop because another one says the same.

Exact copies share a 64-bit key (`transbeam.pipeline.documents.document.document_key`);
near duplicates are linked by `lsh.similar_pairs`. Of training documents that are
linked, be it through others, the one with the smallest key stays; none, where a
validation document is among those they are linked with. Of validation documents that
are linked among themselves the one with the smallest key stays, whatever there is to
train on.

The result is a function of the set of documents, however they are spread over parts and
in whatever order pairs are found.
"""

import numpy as np

KEPT, EXACT, NEAR = np.uint8(0), np.uint8(1), np.uint8(2)
REASONS = {EXACT: "exact duplicate", NEAR: "near duplicate"}


def distinct(keys: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Where each text is met for the first time, in the order in which they may stay.

    Texts that are held out come before all others, and so does the copy of a text that
    is held out before those that are not. Otherwise the order is that of the keys.

    Args:
        keys: uint64 `(N,)`, the documents' hashes, part by part, row by row.
        held_out: bool `(N,)`, which of them are for validation.

    Returns:
        int64, indices into `keys`. The steps below work on these documents alone, and
        their indices are places in this array.

    Example:
    >>> keys = np.array([7, 3, 7, 5], np.uint64)
    >>> distinct(keys, np.array([False, False, False, False]))
    array([1, 3, 0])
    >>> distinct(keys, np.array([False, False, True, False]))
    array([2, 1, 3])
    """
    order = np.argsort(~held_out, kind="stable")
    first = order[np.unique(keys[order], return_index=True)[1]]
    return first[np.argsort(~held_out[first], kind="stable")]


def clusters(pairs: np.ndarray, count: int) -> np.ndarray:
    """Groups documents that are linked, be it through others.

    All groups grow at once: each one's first document is hooked to the smallest first
    document it is linked with, then everyone to their new first (Shiloach & Vishkin,
    1982). The rounds grow as the logarithm of the longest chain.

    Args:
        pairs: int64 `(P, 2)`, in any order, of all bands.
        count: How many documents there are.

    Returns:
        int64 `(count,)`: the smallest document of each one's group.

    Example:
    >>> clusters(np.array([[3, 4], [1, 3]]), 5)
    array([0, 1, 2, 1, 1])
    """
    first = np.arange(count)
    ends = pairs.T
    while ends.size:
        ends = first[ends]
        ends = ends[:, ends[0] != ends[1]]
        np.minimum.at(first, ends.max(axis=0), ends.min(axis=0))
        while not np.array_equal(first, first[first]):
            first = first[first]
    return first


def groups_by_split(pairs: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """The group of each document, where training has no say in what validation is.

    A training document is grouped with all it is linked with, a held-out one with
    those held out alone: what is trained on links no two of them.

    Args:
        pairs: int64 `(P, 2)`, as for `clusters`.
        held_out: bool `(N,)`, in the order of `distinct`: all `True` first.

    Returns:
        int64 `(N,)`, as from `clusters`.

    Example:
    >>> pairs = np.array([[0, 2], [1, 2], [2, 3]])
    >>> groups_by_split(pairs, np.array([True, True, False, False]))
    array([0, 1, 0, 0])
    """
    count = len(held_out)
    among_held_out = pairs[held_out[pairs].all(axis=1)]
    return np.where(held_out, clusters(among_held_out, count), clusters(pairs, count))


def verdicts(keys: np.ndarray, first: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """What becomes of every document.

    Of the exact copies of a text the first is looked at, the others are `EXACT`; of
    those looked at, the first of a group is `KEPT`, the others are `NEAR`.

    Args:
        keys: uint64 `(N,)`, as for `distinct`.
        first: `distinct(keys, held_out)`.
        groups: int64 `(len(first),)`, from `groups_by_split`; `np.arange(len(first))`
            where near duplicates stay.

    Returns:
        uint8 `(N,)`.

    Example:
    >>> keys = np.array([7, 3, 7, 5], np.uint64)
    >>> first = distinct(keys, np.zeros(4, np.bool_))
    >>> verdicts(keys, first, np.array([0, 1, 1]))
    array([2, 0, 1, 0], dtype=uint8)
    """
    result = np.full(len(keys), EXACT)
    result[first] = np.where(groups == np.arange(len(first)), KEPT, NEAR)
    return result


def kept_out(
    keys: np.ndarray, held_out: np.ndarray, first: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """Which training documents are dropped because validation has the same.

    The same text, or one that is linked with it. All copies of such a text count.

    Args:
        keys: uint64 `(N,)`, as for `distinct`.
        held_out: bool `(N,)`, likewise.
        first: `distinct(keys, held_out)`.
        groups: int64 `(len(first),)`, as for `verdicts`.

    Returns:
        bool `(N,)`.

    Example:
    >>> keys = np.array([7, 3, 7, 5], np.uint64)
    >>> held_out = np.array([False, False, True, False])
    >>> first = distinct(keys, held_out)  # 7, 3, 5
    >>> kept_out(keys, held_out, first, np.array([0, 1, 0]))
    array([ True, False, False,  True])
    """
    in_validation = held_out[first][groups]
    return ~held_out & np.isin(keys, keys[first][in_validation])


def leaked(
    groups: np.ndarray, training: np.ndarray, evaluation: np.ndarray
) -> np.ndarray:
    """Which evaluation documents have a near duplicate among the training documents.

    Called with the groups of all documents it says what a split would leak. Called with
    the groups that a second search finds among the documents that were kept, it checks
    what deduplication promises: none. As groups are linked through others too, it
    counts a document rather once too often than too seldom.

    Args:
        groups: int64 `(N,)`, from `clusters`; or numbers of the texts, from 0, for
            exact duplicates alone.
        training: bool `(N,)`, the documents trained on.
        evaluation: bool `(N,)`, those measured on. A text that is in both leaks.

    Returns:
        bool `(N,)`.

    Example:
    >>> training = np.array([True, False, False])
    >>> leaked(np.array([0, 0, 2]), training, ~training)
    array([False,  True, False])
    """
    trained_on = np.zeros(len(groups), np.bool_)
    trained_on[groups[training]] = True
    return evaluation & trained_on[groups]
