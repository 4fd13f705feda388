"""The records that an objective makes of the documents of one part and split."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Placement:
    """The positions of documents in records: one row per part of a document.

    Attributes:
        record: int64 (P,). Row in the arrays of records; ascending.
        document: int64 (P,). Row in the batch of documents.
        offset: int64 (P,). The part's first token within the document.
    """

    record: np.ndarray
    document: np.ndarray
    offset: np.ndarray


@dataclass(frozen=True)
class Records:
    """Training records with their placement and counts of unused documents.

    Attributes:
        arrays: The arrays of the features, each (records, ...).
        placement: The position of each document; other documents are in `rejected` or
            `filtered`, or had no token.
        lengths: int64 (records,). The number of tokens of each record without padding.
        counts: Counts for the manifest, such as `tokens`, `unknown_tokens`,
            `truncated_tokens`, `padding`, `predictions`, `empty_documents`.
        rejected: Row in the batch and reason of each document that lacks what the
            objective requires, for the quarantine.
        filtered: The same for valid documents that the objective cannot use; they are
            only counted.
    """

    arrays: dict[str, np.ndarray]
    placement: Placement
    lengths: np.ndarray
    counts: dict[str, int]
    rejected: list[tuple[int, str]] = field(default_factory=list)
    filtered: list[tuple[int, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lengths)
