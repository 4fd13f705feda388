"""Cuts and joins ragged rows of ids, and converts them to arrays of fixed shape."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from transbeam.pipeline.records.features import Feature
from transbeam.pipeline.records.token_rows import TokenRows


def ranges(lengths: np.ndarray) -> np.ndarray:
    """Returns 0 … n-1 for each n, concatenated.

    Example:
    >>> ranges(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)


def split_rows(ids: np.ndarray, lengths: np.ndarray) -> TokenRows:
    """Splits concatenated ids into rows of the given lengths."""
    row_splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return TokenRows(ids.astype(np.int32, copy=False), row_splits)


def stretches(
    rows: TokenRows, which: np.ndarray, starts: np.ndarray | int, lengths: np.ndarray
) -> TokenRows:
    """Extracts slices of rows as new rows.

    Args:
        rows: The rows to take from.
        which: int (N,). The row of each slice; any order, repeats allowed.
        starts: int (N,), or one for all. The slice's first token within the row.
        lengths: int (N,).

    Example:
    >>> rows = split_rows(np.array([5, 6, 7, 8]), np.array([3, 1]))
    >>> stretches(rows, np.array([1, 0]), np.array([0, 1]), np.array([1, 2])).ids
    array([8, 6, 7], dtype=int32)
    """
    first = rows.row_splits[:-1][which] + starts
    return split_rows(rows.ids[np.repeat(first, lengths) + ranges(lengths)], lengths)


def beside(*parts: TokenRows | int) -> TokenRows:
    """Concatenates sets of rows row by row; an int is inserted into each row.

    Example:
    >>> rows = split_rows(np.array([5, 6, 7]), np.array([2, 1]))
    >>> beside(1, rows, 2).ids
    array([1, 5, 6, 2, 1, 7, 2], dtype=int32)
    """
    count = next(len(part.lengths) for part in parts if isinstance(part, TokenRows))
    one_each = np.ones(count, np.int64)
    sets = [
        part
        if isinstance(part, TokenRows)
        else split_rows(np.full(count, part, np.int32), one_each)
        for part in parts
    ]
    lengths = np.array([part.lengths for part in sets])  # (sets, rows)
    before = np.cumsum(lengths, axis=0) - lengths
    total = lengths.sum(axis=0)
    start = np.cumsum(total) - total
    ids = np.empty(total.sum(), np.int32)
    for part, offset in zip(sets, before, strict=True):
        ids[np.repeat(start + offset, part.lengths) + ranges(part.lengths)] = part.ids
    return split_rows(ids, total)


@dataclass(frozen=True)
class Grid:
    """The positions of the tokens of rows in an array (records, length).

    Attributes:
        shape: Records, and tokens per record.
        cells: int64 (tokens,). Indices in the flattened array.
        ordinals: int64 (rows,). Each row's number in its record, from 1.
        lengths: int64 (rows,). The length of each row.
    """

    shape: tuple[int, int]
    cells: np.ndarray
    ordinals: np.ndarray
    lengths: np.ndarray

    @classmethod
    def from_lengths(
        cls, lengths: np.ndarray, length: int, record: np.ndarray | None = None
    ) -> "Grid":
        """Places rows in records one after another, from the left.

        Args:
            lengths: int (rows,). The length of each row.
            length: Tokens per record; the rows of a record must fit.
            record: int (rows,), ascending from 0 without a gap: the record of each
                row. None: one row per record.
        """
        if record is None:
            record = np.arange(len(lengths))
        rows_before = np.searchsorted(record, record)
        tokens_before = np.cumsum(lengths) - lengths
        column = tokens_before - tokens_before[rows_before]
        cells = np.repeat(record * length + column, lengths) + ranges(lengths)
        records = int(record[-1]) + 1 if len(record) else 0
        ordinals = np.arange(len(lengths)) - rows_before + 1
        return cls((records, length), cells, ordinals, lengths)

    def put(
        self, values: Any, dtype: type[np.generic] = np.int32, fill: int = 0
    ) -> np.ndarray:
        """Returns an array (records, length) with the values of tokens, else `fill`."""
        array = np.full(self.shape[0] * self.shape[1], fill, dtype)
        array[self.cells] = values
        return array.reshape(self.shape)

    def token_arrays(
        self, ids: np.ndarray, pad: int, prefix: str = ""
    ) -> dict[str, np.ndarray]:
        """Returns the arrays of `token_features`."""
        return {
            f"{prefix}token_ids": self.put(ids, fill=pad),
            f"{prefix}document_ids": self.put(np.repeat(self.ordinals, self.lengths)),
            f"{prefix}position_ids": self.put(ranges(self.lengths)),
        }

    @property
    def padding(self) -> int:
        """The number of padding positions."""
        return self.shape[0] * self.shape[1] - len(self.cells)


def token_features(length: int, prefix: str = "") -> tuple[Feature, ...]:
    """Returns the features of all text records; `prefix` as in `encoder_`.

    Example:
    >>> [feature.name for feature in token_features(8, "encoder_")]
    ['encoder_token_ids', 'encoder_document_ids', 'encoder_position_ids']
    """
    whose = f" of the {prefix.rstrip('_')}" if prefix else ""
    return (
        Feature(
            f"{prefix}token_ids",
            "int32",
            (length,),
            f"ids of pieces{whose} as the model sees them",
        ),
        Feature(
            f"{prefix}document_ids",
            "int32",
            (length,),
            "which document of the record a token belongs to, from 1; 0 is padding",
        ),
        Feature(
            f"{prefix}position_ids",
            "int32",
            (length,),
            "place within the document, from 0; 0 on padding",
        ),
    )


def segment_feature(length: int) -> Feature:
    """Returns the feature that tells the two texts of a pair apart."""
    return Feature(
        "segment_ids",
        "int32",
        (length,),
        "1 on the second text and the piece that ends it, else 0",
    )
