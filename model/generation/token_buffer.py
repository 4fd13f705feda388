"""A token buffer of static shape for prompts and generated tokens."""

from typing import Any, NamedTuple

from keras import ops

from transbeam.model.kernels.cache_update import update_slice


class TokenBuffer(NamedTuple):
    """Rows of tokens whose first columns are filled, and to which tokens are appended.

    All rows are filled to the same column, since prompts are left-padded. The content
    of the columns after the filled ones is undefined.

    Shapes: `B` batch, `P` length of the prompts, `L` longest length.

    Attributes:
        token_ids: int32 `(B, L)`.
        padding_mask: int32 `(B, L)`, 0 for the padding before a prompt.
        length: int32 scalar, the number of filled columns.
        prompt_length: int32 scalar, `P`.
    """

    token_ids: Any
    padding_mask: Any
    length: Any
    prompt_length: Any

    @classmethod
    def allocate(cls, token_ids: Any, padding_mask: Any, room: int) -> "TokenBuffer":
        """Allocates a buffer for prompts `(B, P)`, their mask, and `room` new tokens.

        Example:
        >>> ids, mask = ops.array([[0, 5]]), ops.array([[0, 1]])
        >>> history = TokenBuffer.allocate(ids, mask, room=2)
        >>> ops.convert_to_numpy(history.token_ids), int(history.length)
        (array([[0, 5, 0, 0]], dtype=int32), 2)
        """
        batch, length = ops.shape(token_ids)
        new = ops.zeros((batch, room), "int32")
        token_ids = ops.cast(token_ids, "int32")
        padding_mask = ops.cast(padding_mask, "int32")
        length = ops.convert_to_tensor(length, "int32")
        return cls(
            ops.concatenate([token_ids, new], axis=1),
            ops.concatenate([padding_mask, new + 1], axis=1),
            length,
            length,
        )

    @property
    def num_new(self) -> Any:
        """Counts the generated tokens: int32 scalar."""
        return self.length - self.prompt_length

    @property
    def filled(self) -> Any:
        """Marks real tokens: bool `(B, L)`."""
        columns = ops.arange(ops.shape(self.token_ids)[1], dtype="int32")
        before = ops.expand_dims(columns < self.length, 0)
        return ops.logical_and(before, ops.not_equal(self.padding_mask, 0))

    def needs_tokens(self, finished: Any, size: Any) -> Any:
        """Returns whether generation continues: bool scalar.

        Args:
            finished: bool `(B,)`, true for rows that need no more tokens.
            size: The maximum number of new tokens.
        """
        some_open = ops.logical_not(ops.all(finished))
        return ops.logical_and(self.num_new < size, some_open)

    def append(self, tokens: Any) -> "TokenBuffer":
        """Appends one token to each row: int32 `(B,)`."""
        return self.write(ops.expand_dims(tokens, 1))._replace(length=self.length + 1)

    def write(self, tokens: Any) -> "TokenBuffer":
        """Writes tokens `(B, Q)` to the next columns; `length` does not change."""
        token_ids = update_slice(self.token_ids, self.length, tokens, axis=1)
        return self._replace(token_ids=token_ids)

    def last(self, size: int = 1) -> Any:
        """The last tokens of each row: int32 `(B, size)`, -1 for missing tokens.

        Example:
        >>> ids, mask = ops.array([[0, 5]]), ops.array([[0, 1]])
        >>> history = TokenBuffer.allocate(ids, mask, room=1)
        >>> ops.convert_to_numpy(history.last(3))
        array([[-1, -1,  5]], dtype=int32)
        """
        columns = self.length - size + ops.arange(size, dtype="int32")
        inside = ops.expand_dims(columns >= 0, 0)
        columns = ops.maximum(columns, 0)
        real = ops.take(self.padding_mask, columns, axis=1)
        tokens = ops.take(self.token_ids, columns, axis=1)
        return ops.where(ops.logical_and(inside, ops.not_equal(real, 0)), tokens, -1)

    def take(self, rows: Any) -> "TokenBuffer":
        """Gathers rows, int32 `(R,)`."""
        return self._replace(
            token_ids=ops.take(self.token_ids, rows, axis=0),
            padding_mask=ops.take(self.padding_mask, rows, axis=0),
        )

    def new_tokens(self, lengths: Any, size: int, padding: int) -> Any:
        """The first `lengths` `(B,)` new tokens of each row, padded: `(B, size)`."""
        batch = ops.shape(self.token_ids)[0]
        new = ops.slice(self.token_ids, (0, self.prompt_length), (batch, size))
        columns = ops.arange(size, dtype="int32")
        kept = ops.expand_dims(columns, 0) < ops.expand_dims(lengths, 1)
        return ops.where(kept, new, padding)
