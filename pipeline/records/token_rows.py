"""Tokenizes texts to rows of token ids; slices, joins and arranges the rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.records.features import Feature
from transbeam.pipeline.tokenizers.base.interface import Tokenizer

BLOCK_BYTES = 1_000_000  # of text per call of TensorFlow


@dataclass(frozen=True)
class TokenRows:
    """The concatenated ids of many texts.

    Attributes:
        ids: int32 (tokens,).
        row_splits: int64 (D + 1,). The index in `ids` of each text's first id, and at
            the end the length of `ids`.
    """

    ids: np.ndarray
    row_splits: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each text, int64 (D,)."""
        return np.diff(self.row_splits)


def tokenize_column(
    batch: DocumentBatch, tokenizer: Tokenizer, column: str = "text"
) -> TokenRows:
    """Tokenizes one column of texts; an empty text has no ids."""
    return tokenize_texts(batch.texts(column), tokenizer)


def tokenize_texts(
    texts: Sequence[bytes] | np.ndarray, tokenizer: Tokenizer
) -> TokenRows:
    """Tokenizes texts in UTF-8, in blocks; an empty text has no ids."""
    ids = [np.zeros(0, np.int32)]
    lengths = [np.zeros(0, np.int64)]
    for block in blocks(texts):
        tokens = tokenizer.tokenize(block)
        ids.append(tokens.flat_values.numpy())
        lengths.append(tokens.row_lengths().numpy())
    row_splits = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    return TokenRows(np.concatenate(ids), row_splits.astype(np.int64))


def blocks(texts: Sequence[bytes] | np.ndarray) -> list[Sequence[bytes] | np.ndarray]:
    """Splits texts into blocks of about `BLOCK_BYTES`, without cutting a text."""
    if not len(texts):
        return []
    ends = np.cumsum([len(text) for text in texts])
    cuts = np.searchsorted(ends, np.arange(BLOCK_BYTES, ends[-1], BLOCK_BYTES)) + 1
    edges = [0, *dict.fromkeys(cuts.tolist()), len(texts)]
    return [texts[start:end] for start, end in pairwise(edges) if start < end]


def ranges(lengths: np.ndarray) -> np.ndarray:
    """Concatenates the ranges 0 … n-1 for each n in `lengths`.

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


def slice_rows(
    rows: TokenRows, which: np.ndarray, starts: np.ndarray | int, lengths: np.ndarray
) -> TokenRows:
    """Extracts slices of rows as new rows.

    Args:
        rows: The rows to take from.
        which: int (N,). The index of the row of each slice, in any order; repeats are
            allowed.
        starts: int (N,), or one int for all slices. The index of the slice's first
            token within the row.
        lengths: int (N,).

    Example:
    >>> rows = split_rows(np.array([5, 6, 7, 8]), np.array([3, 1]))
    >>> slice_rows(rows, np.array([1, 0]), np.array([0, 1]), np.array([1, 2])).ids
    array([8, 6, 7], dtype=int32)
    """
    first = rows.row_splits[:-1][which] + starts
    return split_rows(rows.ids[np.repeat(first, lengths) + ranges(lengths)], lengths)


def join_rows(*parts: TokenRows | int) -> TokenRows:
    """Concatenates sets of rows row by row; an int is an id to insert in each row.

    Example:
    >>> rows = split_rows(np.array([5, 6, 7]), np.array([2, 1]))
    >>> join_rows(1, rows, 2).ids
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
        cells: int64 (tokens,). The index of each token in the flattened array.
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
        """Returns an array (records, length): `values` at tokens, `fill` at padding."""
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
    """Returns the features of all text records; `prefix` is, for example, `encoder_`.

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
            f"token ids{whose}, the input of the model",
        ),
        Feature(
            f"{prefix}document_ids",
            "int32",
            (length,),
            "number of the token's document in the record, from 1; 0 for padding",
        ),
        Feature(
            f"{prefix}position_ids",
            "int32",
            (length,),
            "position in the document, from 0; 0 for padding",
        ),
    )


def segment_feature(length: int) -> Feature:
    """Returns the feature that distinguishes the two texts of a pair."""
    return Feature(
        "segment_ids",
        "int32",
        (length,),
        "1 for the second text and its end token, else 0",
    )


def tokenize_words(
    sentences: Sequence[Sequence[str]], tokenizer: Tokenizer, run: RunConfig
) -> TokenRows:
    """Tokenizes the words of sentences, one row per word.

    Each word except the first of a sentence gets the tokenizer's `word_prefix`, so that
    it has the same tokens as inside the sentence. A word without any token, such as a
    control character, becomes the unknown token: every row has at least one token.

    Raises:
        ConfigError: A word has no token and the tokenizer has no unknown token.
    """
    before = tokenizer.word_prefix.encode("utf-8")
    texts = [
        before * (place > 0) + word.encode("utf-8")
        for sentence in sentences
        for place, word in enumerate(sentence)
    ]
    rows = tokenize_texts(texts, tokenizer)
    without = np.flatnonzero(rows.lengths == 0)
    if not len(without):
        return rows
    unknown = tokenizer.special.unknown
    if unknown is None:
        raise ConfigError(
            f"objective.kind={run.objective.kind}: {texts[without[0]]!r} has no piece, "
            f"and the tokenizer of tokenizer.kind={run.tokenizer.kind} has none for "
            "unknown words. Choose special pieces with one (tokenizer.kind=wordpiece "
            "has it)"
        )
    ids = np.insert(rows.ids, rows.row_splits[:-1][without], unknown)
    return split_rows(ids, np.maximum(rows.lengths, 1))
