"""What an objective makes of the documents of one part and split."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Placement:
    """Which document stands where: one row per stretch of a document in a record.

    Attributes:
        record: int64 (P,). Row in the arrays of records; ascending.
        document: int64 (P,). Row in the batch of documents.
        offset: int64 (P,). The stretch's first token within the document.
    """

    record: np.ndarray
    document: np.ndarray
    offset: np.ndarray


@dataclass(frozen=True)
class Records:
    """Records of training data, and an account of the documents they were made from.

    Attributes:
        arrays: The arrays of the record contract, each (records, ...).
        placement: Where each document went; a document that is nowhere here is in
            `rejected` or `filtered`, or had no token.
        lengths: int64 (records,). Tokens of each record that are not padding.
        counts: Numbers for the manifest, such as `tokens`, `unknown_tokens`,
            `truncated_tokens`, `padding`, `predictions`, `empty_documents`.
        rejected: Row in the batch and reason of each document that is not what the
            objective needs; they go to quarantine.
        filtered: The same for documents that are sound, but of no use to the
            objective; they are counted.
    """

    arrays: dict[str, np.ndarray]
    placement: Placement
    lengths: np.ndarray
    counts: dict[str, int]
    rejected: list[tuple[int, str]] = field(default_factory=list)
    filtered: list[tuple[int, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lengths)
