"""Finds short token sequences at the end of the generated text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from transbeam.model.generation.token_buffer import TokenBuffer

ANY = -2


class StopSequences:
    """Token sequences that are compared with the ends of rows, all at once.

    Args:
        sequences: The token sequences, each with at least one token.

    Example:
    >>> history = TokenBuffer.allocate(ops.array([[7, 5]]), ops.array([[1, 1]]), room=1)
    >>> sequences = StopSequences([(5, 6), (8,), (6, 7, 8)])
    >>> ops.convert_to_numpy(sequences.about_to_end(history))
    array([[ True,  True, False]])
    """

    def __init__(self, sequences: Sequence[Sequence[int]]):
        longest = max(map(len, sequences), default=1)
        table = np.full((len(sequences), longest), ANY, "int32")
        for row, sequence in zip(table, sequences, strict=True):
            row[longest - len(sequence) :] = sequence
        self.beginnings = table[:, :-1]  # (N, longest - 1), right-aligned
        self.lengths = np.array([len(sequence) for sequence in sequences], "int32")
        self.last_tokens = table[:, -1]  # (N,)

    def __len__(self) -> int:
        return len(self.last_tokens)

    def about_to_end(self, history: TokenBuffer, *, only_new: bool = False) -> Any:
        """Marks sequences that lack only their last token: bool `(B, N)`.

        Args:
            history: The tokens so far.
            only_new: If true, no token of the sequence may be in the prompt.
        """
        size = self.beginnings.shape[1]
        last = ops.expand_dims(history.last(size), 1)  # (B, 1, longest - 1)
        beginnings = self.beginnings[None]  # (1, N, longest - 1)
        same = ops.logical_or(ops.equal(last, beginnings), beginnings == ANY)
        matches = ops.all(same, axis=-1)  # (B, N)
        if not only_new:
            return matches
        fits = self.lengths - 1 <= history.num_new
        return ops.logical_and(matches, ops.expand_dims(fits, 0))

    def completed_by(self, tokens: Any, about_to_end: Any) -> Any:
        """Marks rows in which a next token `(B,)` completes a sequence: bool `(B,)`."""
        last = ops.equal(ops.expand_dims(tokens, 1), self.last_tokens[None])
        return ops.any(ops.logical_and(last, about_to_end), axis=1)

    def completing_tokens(self, about_to_end: Any, vocabulary_size: int) -> Any:
        """Marks tokens that would complete a sequence: bool `(B, V)`."""
        tokens = ops.broadcast_to(self.last_tokens[None], ops.shape(about_to_end))
        return mark_tokens(tokens, about_to_end, vocabulary_size)


def mark_tokens(tokens: Any, where: Any, vocabulary_size: int) -> Any:
    """Marks tokens of the vocabulary: bool `(B, V)`.

    Args:
        tokens: int32 `(B, N)`.
        where: bool `(B, N)`, true for tokens to mark; other entries are ignored.
        vocabulary_size: `V`.

    Example:
    >>> tokens, where = ops.array([[2, 9]]), ops.array([[True, False]])
    >>> ops.convert_to_numpy(mark_tokens(tokens, where, 3))
    array([[False, False,  True]])
    """
    batch, number = ops.shape(tokens)
    rows = ops.repeat(ops.arange(batch, dtype="int32"), number)
    tokens = ops.reshape(ops.where(where, tokens, 0), [-1])
    where = ops.reshape(ops.cast(where, "float32"), [-1])
    indices = ops.stack([rows, tokens], axis=1)  # (B N, 2)
    return ops.scatter(indices, where, (batch, vocabulary_size)) > 0
