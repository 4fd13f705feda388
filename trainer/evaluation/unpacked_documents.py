"""Unpacks packed records to one document per row, and packs the results again."""

from dataclasses import dataclass

import numpy as np

from transbeam.pipeline.records.document_unpacking import split_documents
from transbeam.pipeline.records.token_rows import ranges
from transbeam.trainer.objectives.objective_metrics import Batch


@dataclass(frozen=True)
class Unpacked:
    """All encoder or decoder documents of a batch of records, one document per row.

    Documents are ordered by record, and by their position within the record; so the
    encoder and the decoder documents have the same order.

    Attributes:
        token_ids: int32 (D, T), padded with 0.
        padding_mask: int32 (D, T), 1 for a real token.
        cells: bool (B, L). True at the positions of the records that contain a token of
            a document.
        row: int64 (N,). The row of the document that contains each of the records'
            tokens.
        column: int64 (N,). The token's position in the document.
    """

    token_ids: np.ndarray
    padding_mask: np.ndarray
    cells: np.ndarray
    row: np.ndarray
    column: np.ndarray

    @classmethod
    def from_batch(cls, batch: Batch, side: str = "") -> "Unpacked":
        """Unpacks the documents of records.

        Args:
            batch: The records.
            side: Prefix of the features' names: `encoder_`, `decoder_`, or none.
        """
        document_ids = batch[f"{side}document_ids"]
        cells = document_ids > 0
        lengths = np.array(list(map(len, split_documents(document_ids))), np.int64)
        row, column = np.repeat(np.arange(len(lengths)), lengths), ranges(lengths)
        shape = len(lengths), int(lengths.max(initial=1))
        token_ids, padding_mask = np.zeros((2, *shape), np.int32)
        token_ids[row, column] = batch[f"{side}token_ids"][cells]
        padding_mask[row, column] = 1
        return cls(token_ids, padding_mask, cells, row, column)

    def take_out(self, values: np.ndarray) -> np.ndarray:
        """Unpacks a feature of the records, (B, L) to int32 (D, T), 0 for padding."""
        found = np.zeros_like(self.token_ids)
        found[self.row, self.column] = values[self.cells]
        return found

    def put_back(self, values: np.ndarray) -> np.ndarray:
        """Packs values of documents, (D, T, V) to (B, L, V), 0 for padding.

        Example:
        >>> records = {
        ...     "token_ids": np.array([[7, 4, 8, 0]]),
        ...     "document_ids": np.array([[1, 1, 2, 0]]),
        ...     "position_ids": np.array([[0, 1, 0, 0]]),
        ... }
        >>> documents = Unpacked.from_batch(records)
        >>> documents.token_ids.tolist(), documents.padding_mask.tolist()
        ([[7, 4], [8, 0]], [[1, 1], [1, 0]])
        >>> documents.put_back(documents.token_ids[:, :, None])[0, :, 0].tolist()
        [7.0, 4.0, 8.0, 0.0]
        """
        found = np.zeros((*self.cells.shape, values.shape[-1]), np.float32)
        found[self.cells] = values[self.row, self.column]
        return found


@dataclass(frozen=True)
class DocumentRows:
    """The documents of a batch of records that have masked tokens, one per row.

    Attributes:
        token_ids: int32 (D, T), padded with 0.
        padding_mask: int32 (D, T), 1 for a real token.
        masked_positions: Masked positions in each document, int32 (D, M), padded with
            0.
        masks: int64 (D,). Number of masks of each document.
        slots: bool (B, P). True at the entries of the records' `masked_positions` that
            are not padding.
        row: int64 (N,). The row of the document for each real entry of
            `masked_positions`.
        column: int64 (N,). The index of each entry in the document's
            `masked_positions`.
    """

    token_ids: np.ndarray
    padding_mask: np.ndarray
    masked_positions: np.ndarray
    masks: np.ndarray
    slots: np.ndarray
    row: np.ndarray
    column: np.ndarray

    @classmethod
    def from_batch(cls, batch: Batch) -> "DocumentRows":
        """Unpacks the documents of records of the objective `masked`."""
        documents = Unpacked.from_batch(batch)
        owner = np.zeros(documents.cells.shape, np.int64)
        owner[documents.cells] = documents.row

        slots = batch["masked_weights"] > 0
        record, slot = np.nonzero(slots)
        position = batch["masked_positions"][record, slot]
        asked, row = np.unique(owner[record, position], return_inverse=True)
        masks = np.bincount(row, minlength=len(asked))
        order = np.argsort(row, kind="stable")
        column = np.empty(len(row), np.int64)
        column[order] = ranges(masks)
        masked = np.zeros((len(asked), int(masks.max(initial=0))), np.int32)
        masked[row, column] = batch["position_ids"][record, position]

        padding_mask = documents.padding_mask[asked]
        longest = int(padding_mask.sum(axis=1).max(initial=1))
        return cls(
            documents.token_ids[asked, :longest],
            padding_mask[:, :longest],
            masked,
            masks,
            slots,
            row,
            column,
        )

    def put_back(self, logits: np.ndarray) -> np.ndarray:
        """Scatters logits (D, M, V) to masked positions of records, (B, P, V); else 0.

        Example:
        >>> records = {
        ...     "token_ids": np.array([[7, 4, 8, 4, 0]]),
        ...     "document_ids": np.array([[1, 1, 2, 2, 0]]),
        ...     "position_ids": np.array([[0, 1, 0, 1, 0]]),
        ...     "masked_positions": np.array([[1, 3, 0]]),
        ...     "masked_weights": np.array([[1.0, 1.0, 0.0]]),
        ... }
        >>> documents = DocumentRows.from_batch(records)
        >>> documents.token_ids.tolist(), documents.masked_positions.tolist()
        ([[7, 4], [8, 4]], [[1], [1]])
        >>> documents.put_back(np.array([[[5.0]], [[6.0]]])).tolist()
        [[[5.0], [6.0], [0.0]]]
        """
        found = np.zeros((*self.slots.shape, logits.shape[-1]), np.float32)
        found[self.slots] = logits[self.row, self.column]
        return found
