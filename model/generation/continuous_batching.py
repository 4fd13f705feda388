"""Continuous batching: rows join and leave a running batch between tokens.

The prompts of a batch are left-padded to end in the same column. A joining row is
left-padded too, to end in the current column of the running batch.

References:
    - [Yu et al., 2022](https://www.usenix.org/conference/osdi22/presentation/yu),
      section 4, "iteration-level scheduling"
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from keras import ops

from transbeam.model.generation.cache_rows import (
    concatenate_rows,
    gather_rows,
    join_rows,
    move_columns,
    move_slots,
)
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.generation.logits_processors import GeneratedRows
from transbeam.model.generation.request_batch import (
    RequestBatch,
    map_requests,
    select_next_tokens,
)

# Free columns that are added at once, since each time all keys and values are copied.
ROOM = 32


class Running(NamedTuple):
    """A running batch: `B` rows of `L` columns, all of which end in the same column.

    Attributes:
        token_ids: int32 `(B, L)`, prompts and new tokens; entries before a row's first
            token and after the last filled column are undefined.
        num_tokens: int32 `(B,)`, number of tokens of each row, with the prompt.
        num_new: int32 `(B,)`, number of generated tokens of each row.
        length: int, or on TensorFlow an int32 scalar: number of filled columns.
        requests: The parameters of each row.
        cache: The model's cache, with a slot for each column.
    """

    token_ids: Any
    num_tokens: Any
    num_new: Any
    length: Any
    requests: RequestBatch
    cache: Any

    @property
    def columns(self) -> Any:
        """`L`."""
        return ops.shape(self.token_ids)[1]

    @property
    def last(self) -> Any:
        """The newest token of each row: int32 `(B, 1)`."""
        rows = ops.shape(self.token_ids)[0]
        return ops.slice(self.token_ids, (0, self.length - 1), (rows, 1))

    def ended(self, stop_token_ids: Sequence[int]) -> tuple[Any, Any]:
        """Marks finished rows, and finished rows that ended with a stop token."""
        finished = ops.zeros_like(self.num_new, dtype="bool")
        for token in stop_token_ids:
            finished = ops.logical_or(finished, ops.equal(self.last[:, 0], token))
        full = self.num_new >= self.requests.max_new_tokens
        return ops.logical_or(finished, full), finished


def start(
    steps: DecodeFunctions, token_ids: Any, padding_mask: Any, requests: RequestBatch
) -> Running:
    """Processes the prompts and generates the first token of each.

    Args:
        steps: The model; see `transbeam.model.generation.keras_decode_functions`.
        token_ids: int32 `(B, P)`, the prompts, padded on the left.
        padding_mask: int32 `(B, P)`, 0 for padding.
        requests: The parameters of each row.

    Example:
    >>> def prefill(token_ids, padding_mask, slots):
    ...     return ops.one_hot(token_ids[:, -1] + 1, 10), ()
    >>> def step(token_ids, cache, index):  # counts up
    ...     return ops.one_hot(token_ids + 1, 10), ()
    >>> steps = DecodeFunctions(prefill, step)
    >>> def requests(*numbers):  # the likeliest token each time
    ...     zeros = ops.zeros((len(numbers),), "int32")
    ...     none, all = ops.cast(zeros, "float32"), ops.ones((len(numbers),))
    ...     return RequestBatch(ops.array(numbers), none, zeros, all, zeros)
    >>> prompts = ops.array([[2], [4]])
    >>> running = start(steps, prompts, ops.ones_like(prompts), requests(3, 1))
    >>> running = advance(steps, keep(running, ops.array([0])))
    >>> late = start(steps, prompts[1:] + 2, ops.ones((1, 1)), requests(5))
    >>> running = advance(steps, join(running, late))
    >>> ops.convert_to_numpy(running.token_ids)[:, : running.length]
    array([[2, 3, 4, 5],
           [0, 6, 7, 8]], dtype=int32)
    """
    length = ops.shape(token_ids)[1]
    slots = length + ROOM
    logits, cache = steps.prefill(token_ids, padding_mask, slots)
    num_tokens = ops.sum(ops.cast(padding_mask, "int32"), axis=1)
    running = Running(
        move_columns(ops.cast(token_ids, "int32"), 0, slots, axis=1),
        num_tokens,
        ops.zeros_like(num_tokens),
        length,
        requests,
        cache,
    )
    return _append(running, logits)


def advance(steps: DecodeFunctions, running: Running) -> Running:
    """Generates one more token in each row."""
    # The new token needs a column; columns are added only when all are filled.
    full = ops.cast(running.length >= running.columns, "int32")
    room = running.columns + ROOM * (full if _is_tensor(running.length) else int(full))
    running = _move(running, 0, room)
    logits, cache = steps.step(running.last, running.cache, running.length - 1)
    return _append(running._replace(cache=cache), logits[:, 0])


def join(running: Running, others: Running) -> Running:
    """Concatenates the rows of two running batches."""
    known = not _is_tensor(running.length) and not _is_tensor(others.length)
    length = (max if known else ops.maximum)(running.length, others.length)
    first, second = (
        _move(part, length - part.length, length + ROOM) for part in (running, others)
    )
    return Running(
        concatenate_rows(first.token_ids, second.token_ids),
        concatenate_rows(first.num_tokens, second.num_tokens),
        concatenate_rows(first.num_new, second.num_new),
        length,
        map_requests(concatenate_rows, first.requests, second.requests),
        join_rows(first.cache, second.cache),
    )


def keep(running: Running, rows: Any) -> Running:
    """Keeps some rows, int32 `(R,)`, at least one, and drops unneeded columns."""
    take = partial(gather_rows, rows=rows)
    num_tokens = take(running.num_tokens)
    length = ops.max(num_tokens)
    length = length if _is_tensor(running.length) else int(length)
    kept = Running(
        take(running.token_ids),
        num_tokens,
        take(running.num_new),
        running.length,
        map_requests(take, running.requests),
        take(running.cache),
    )
    return _move(kept, length - running.length, length + ROOM)


def _append(running: Running, logits: Any) -> Running:
    columns = ops.arange(running.columns, dtype="int32")

    def read():
        first = ops.expand_dims(running.length - running.num_tokens, 1)
        real = ops.logical_and(columns >= first, columns < running.length)
        return GeneratedRows(running.token_ids, real, running.length)

    requests = running.requests
    token = select_next_tokens(
        logits, requests, running.num_new, read, requests.adjusted()
    )
    here = ops.expand_dims(ops.equal(columns, running.length), 0)
    return running._replace(
        token_ids=ops.where(here, ops.expand_dims(token, 1), running.token_ids),
        num_tokens=running.num_tokens + 1,
        num_new=running.num_new + 1,
        length=running.length + 1,
    )


def _move(running: Running, shift: Any, columns: Any) -> Running:
    """Shifts the rows to the right by `shift`, in a buffer of `columns`."""
    return running._replace(
        token_ids=move_columns(running.token_ids, shift, columns, axis=1),
        length=running.length + shift,
        cache=move_slots(running.cache, shift, columns),
    )


def _is_tensor(length: Any) -> bool:
    return not isinstance(length, int)
