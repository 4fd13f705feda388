"""Unpacking: locates the documents in packed rows by the rows' `document_ids`."""

import numpy as np


def split_documents(document_ids: np.ndarray) -> list[np.ndarray]:
    """Returns the indices of each document's tokens in packed rows.

    Args:
        document_ids: int (T,) or (B, T), as in records: 1, 1, 2, 2, 2, 0, where 0 is
            padding and the tokens of a document are adjacent.

    Returns:
        One array of indices into the flattened `document_ids` per document, in the
        order of the rows and, within a row, of the documents.

    Example:
    >>> documents = split_documents(np.array([[1, 1, 2, 0], [1, 0, 0, 0]]))
    >>> [document.tolist() for document in documents]
    [[0, 1], [2], [4]]
    """
    starts = np.ones(document_ids.shape, np.bool_)
    starts[..., 1:] = document_ids[..., 1:] != document_ids[..., :-1]
    parts = np.split(np.arange(document_ids.size), np.flatnonzero(starts)[1:])
    return [part for part in parts if document_ids.flat[part].any()]
