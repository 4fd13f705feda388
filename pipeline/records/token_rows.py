"""Tokenizes columns of texts to concatenated ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.tokenizers.base.interface import Tokenizer

BLOCK_BYTES = 1_000_000  # of text per call of TensorFlow


@dataclass(frozen=True)
class TokenRows:
    """The concatenated ids of many texts.

    Attributes:
        ids: int32 (tokens,).
        row_splits: int64 (D + 1,). The start of each text's ids, and the end.
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
    """Splits texts into blocks of about `BLOCK_BYTES`; a longer text is a block."""
    if not len(texts):
        return []
    ends = np.cumsum([len(text) for text in texts])
    cuts = np.searchsorted(ends, np.arange(BLOCK_BYTES, ends[-1], BLOCK_BYTES)) + 1
    edges = [0, *dict.fromkeys(cuts.tolist()), len(texts)]
    return [texts[start:end] for start, end in pairwise(edges) if start < end]
