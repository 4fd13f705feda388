"""Selects the duplicate documents to drop.

Exact copies share a 64-bit key (`transbeam.pipeline.documents.document.document_key`);
near duplicates are linked by `lsh.similar_pairs`. In a connected component, the
training document with the smallest key is kept, or none if the component contains a
validation document. Validation documents form components without regard to training
documents; in each, the document with the smallest key is kept.

The result depends only on the set of documents, not on their distribution over document
parts or the order of the pairs.
"""

import numpy as np

KEPT, EXACT, NEAR = np.uint8(0), np.uint8(1), np.uint8(2)
REASONS = {EXACT: "exact duplicate", NEAR: "near duplicate"}


def distinct(keys: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Returns one document for each distinct text, in order of precedence.

    Texts of validation documents precede all other texts; if a text has copies in both
    splits, a validation copy is returned. Within the validation texts, and within the
    other texts, the documents are sorted by key.

    Args:
        keys: uint64 `(N,)`, the keys of all documents, in the order of the document
            parts and of the rows in each.
        held_out: bool `(N,)`, True for validation documents.

    Returns:
        int64, indices into `keys`. These indices are called `first` in the functions
        below, whose groups and pairs refer to a document by its position in `first`.

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
    """Finds the connected components of linked documents.

    All components grow in parallel: in each round, a component's root is attached to
    the smallest root linked with it, then each document to its new root (Shiloach &
    Vishkin, 1982). The number of rounds grows with the logarithm of the longest chain
    of linked documents.

    Args:
        pairs: int64 `(P, 2)`, the pairs of all bands, in any order.
        count: The number of documents.

    Returns:
        int64 `(count,)`: for each document, the smallest index in its component.

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
    """Returns each document's group; training documents do not link validation ones.

    A training document is grouped with all documents in its component; a validation
    document only with those that are linked through validation documents alone.

    Args:
        pairs: int64 `(P, 2)`, the pairs of linked documents, as for `clusters`.
        held_out: bool `(N,)`, True for validation documents; in the order of
            `distinct`, so all validation documents come first.

    Returns:
        int64 `(N,)`: for each document, the smallest index in its group.

    Example:
    >>> pairs = np.array([[0, 2], [1, 2], [2, 3]])
    >>> groups_by_split(pairs, np.array([True, True, False, False]))
    array([0, 1, 0, 0])
    """
    count = len(held_out)
    among_held_out = pairs[held_out[pairs].all(axis=1)]
    return np.where(held_out, clusters(among_held_out, count), clusters(pairs, count))


def classify_duplicates(
    keys: np.ndarray, first: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """Classifies each document as `KEPT`, `EXACT` or `NEAR`.

    All exact copies of a text except the first are `EXACT`. A group of near duplicates
    contains the first copy of each of its distinct texts: the first document of the
    group is `KEPT`, the others are `NEAR`.

    Args:
        keys: uint64 `(N,)`, the keys of all documents, as for `distinct`.
        first: `distinct(keys, held_out)`.
        groups: int64 `(len(first),)`, the groups of near duplicates from
            `groups_by_split`; `np.arange(len(first))` if near duplicates are kept.

    Returns:
        uint8 `(N,)`.

    Example:
    >>> keys = np.array([7, 3, 7, 5], np.uint64)
    >>> first = distinct(keys, np.zeros(4, np.bool_))
    >>> classify_duplicates(keys, first, np.array([0, 1, 1]))
    array([2, 0, 1, 0], dtype=uint8)
    """
    result = np.full(len(keys), EXACT)
    result[first] = np.where(groups == np.arange(len(first)), KEPT, NEAR)
    return result


def mark_validation_duplicates(
    keys: np.ndarray, held_out: np.ndarray, first: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """Returns a mask of training documents that duplicate a validation document.

    A training document is marked if its text is also the text of a validation document,
    or is in the same group as the text of a validation document. All training documents
    with the same text as a marked document are marked.

    Args:
        keys: uint64 `(N,)`, the keys of all documents, as for `distinct`.
        held_out: bool `(N,)`, likewise.
        first: `distinct(keys, held_out)`.
        groups: int64 `(len(first),)`, the groups of near duplicates, as for
            `classify_duplicates`.

    Returns:
        bool `(N,)`.

    Example:
    >>> keys = np.array([7, 3, 7, 5], np.uint64)
    >>> held_out = np.array([False, False, True, False])
    >>> first = distinct(keys, held_out)  # 7, 3, 5
    >>> mark_validation_duplicates(keys, held_out, first, np.array([0, 1, 0]))
    array([ True, False, False,  True])
    """
    in_validation = held_out[first][groups]
    return ~held_out & np.isin(keys, keys[first][in_validation])


def leaked(
    groups: np.ndarray, training: np.ndarray, evaluation: np.ndarray
) -> np.ndarray:
    """Returns a mask of evaluation documents with a duplicate in training.

    Applied to the groups of all documents, the function measures the leakage of a
    split. Applied to groups that a second search finds among the kept documents, it
    verifies the deduplication: no document may be marked. As groups are transitive, the
    leakage is overestimated rather than underestimated.

    Args:
        groups: int64 `(N,)`, from `clusters`; or indices of distinct texts, for exact
            duplicates only.
        training: bool `(N,)`, the training documents.
        evaluation: bool `(N,)`, the evaluation documents. A document in both masks
            counts as leaked.

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
