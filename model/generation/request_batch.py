"""Generation for a batch of requests, each with its own parameters.

`GenerationConfig` fixes parameters when a function is traced. In a `RequestBatch` the
parameters are tensors, so one traced and exported function serves requests with any
parameters.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras import ops

from transbeam.configs.schema.generation import GenerationConfig
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.generation.logits_processors import (
    ConfigLogitsProcessors,
    GeneratedRows,
    RowLogitsProcessor,
    adjust,
)
from transbeam.model.generation.sampling import (
    CHOICE,
    draw,
    highest,
    keep_likeliest,
    keep_min_p,
)
from transbeam.model.generation.token_buffer import TokenBuffer
from transbeam.model.kernels.cache_update import loop_with_cache


class RequestBatch(NamedTuple):
    """The generation parameters of each of `B` rows.

    Attributes:
        max_new_tokens: int32 `(B,)`; 0 generates nothing.
        temperature: float32 `(B,)`; 0 for greedy decoding.
        top_k: int32 `(B,)`, sample among this many most likely tokens; 0 for all.
        top_p: float32 `(B,)`, sample among the most likely tokens with this total
            probability.
        seeds: int32 `(B,)`, the seeds of rows that sample.
        min_p: float32 `(B,)`, sample among tokens with at least this share of the
            largest probability; 0 for all. None if no row uses `min_p`.
        adjustments: Logits processors applied before sampling. None for none.
    """

    max_new_tokens: Any
    temperature: Any
    top_k: Any
    top_p: Any
    seeds: Any
    min_p: Any = None
    adjustments: RowLogitsProcessor | None = None

    def adjusted(self) -> Any:
        """Checks if any row has a processor: bool scalar, the same at each token."""
        return False if self.adjustments is None else self.adjustments.any()


def map_requests(function: Callable[..., Any], *requests: RequestBatch) -> RequestBatch:
    """Applies a function to the values of each field, over several request batches."""
    *columns, adjustments = zip(*requests, strict=True)
    found: Any = [
        None if column[0] is None else function(*column) for column in columns
    ]
    if adjustments[0] is not None:
        parts = zip(*adjustments, strict=True)
        found.append(RowLogitsProcessor(*(function(*part) for part in parts)))
    return RequestBatch(*found)


class GenerationResult(NamedTuple):
    """Generated tokens, one row per request.

    Attributes:
        token_ids: int32 `(B, N)`, the new tokens, then padding.
        lengths: int32 `(B,)`, the number of new tokens, including the token that ended
            the text.
        finished: bool `(B,)`, true if the text ended at a stop condition and not at its
            maximum length.
    """

    token_ids: Any
    lengths: Any
    finished: Any


def write_requests(
    steps: DecodeFunctions,
    token_ids: Any,
    padding_mask: Any,
    requests: RequestBatch,
    *,
    room: Any,
    stop_token_ids: Sequence[int] = (),
    pad_token_id: int = 0,
    ends: Callable[[TokenBuffer], Any] | None = None,
) -> GenerationResult:
    """Generates tokens for prompts, with the parameters of each request.

    A row's text depends only on its own prompt and request. If all rows have
    temperature 0, nothing is sampled; if none has `top_k`, `top_p` or `min_p`, nothing
    is sorted.

    Args:
        steps: The model; see `transbeam.model.generation.keras_decode_functions`.
        token_ids: int32 `(B, P)`, the prompts, padded on the left.
        padding_mask: int32 `(B, P)`, 0 for padding.
        requests: The parameters of each row.
        room: The largest `max_new_tokens`, `N`; an int, or on TensorFlow a tensor.
        stop_token_ids: Tokens that end a text.
        pad_token_id: The token that fills the row after a text that ends early.
        ends: A function that marks the rows whose text ends for another reason than a
            stop token: `(B,)`.

    Example:
    >>> def prefill(token_ids, padding_mask, slots):
    ...     return scores_after(token_ids)[:, -1], ()
    >>> def step(token_ids, cache, index):
    ...     return scores_after(token_ids), ()
    >>> def scores_after(token_ids):  # counts up
    ...     return ops.one_hot(token_ids + 1, 10)
    >>> prompts = ops.array([[2], [4]])
    >>> zeros = ops.zeros((2,))
    >>> requests = RequestBatch(ops.array([3, 1]), zeros, ops.cast(zeros, "int32"),
    ...                     zeros + 1, ops.cast(zeros, "int32"))
    >>> model = DecodeFunctions(prefill, step)
    >>> written = write_requests(
    ...     model, prompts, ops.ones_like(prompts), requests, room=3
    ... )
    >>> ops.convert_to_numpy(written.token_ids)
    array([[3, 4, 5],
           [5, 0, 0]], dtype=int32)
    """
    steps = steps.begin() if steps.begin else steps
    config = GenerationConfig(
        stop_token_ids=tuple(stop_token_ids), pad_token_id=pad_token_id
    )
    history = TokenBuffer.allocate(token_ids, padding_mask, room=room)
    slots = ops.shape(history.token_ids)[1]
    logits, cache = steps.prefill(token_ids, padding_mask, slots)
    rules = ConfigLogitsProcessors(config, logits.shape[-1])
    adjusted = requests.adjusted()

    def extend(logits, history, closed, finished, lengths):
        def read():
            return GeneratedRows(history.token_ids, history.filled, history.length)

        token = select_next_tokens(logits, requests, history.num_new, read, adjusted)
        token = ops.where(closed, pad_token_id, token)
        open_rows = ops.logical_not(closed)
        lengths = lengths + ops.cast(open_rows, "int32")
        ended = rules.finished_by(token, history)
        history = history.append(token)
        if ends is not None:
            ended = ops.logical_or(ended, ends(history))
        finished = ops.logical_or(finished, ops.logical_and(open_rows, ended))
        full = history.num_new >= requests.max_new_tokens
        closed = ops.logical_or(closed, ops.logical_or(finished, full))
        return history, closed, finished, lengths

    def body(cache, history, closed, finished, lengths):
        logits, cache = steps.step(history.last(), cache, history.length - 1)
        return cache, extend(logits[:, 0], history, closed, finished, lengths)

    lengths = ops.zeros_like(token_ids[:, 0])
    none = ops.zeros_like(lengths, dtype="bool")
    closed = requests.max_new_tokens < 1
    start = extend(logits, history, closed, none, lengths)
    history, _, finished, lengths = loop_with_cache(
        lambda history, closed, *_: history.needs_tokens(closed, room),
        body,
        start,
        cache,
    )
    new = history.new_tokens(lengths, room, pad_token_id)
    return GenerationResult(new, lengths, finished)


def select_next_tokens(
    logits: Any,
    requests: RequestBatch,
    place: Any,
    read: Callable[[], GeneratedRows],
    adjusted: Any,
) -> Any:
    """Selects the next token of each row: int32 `(B,)`.

    Args:
        logits: float32 `(B, V)`.
        requests: The parameters of each row.
        place: The index of the new token, from 0; int32 scalar, or `(B,)` if rows
            started at different times.
        read: A function that returns the tokens so far; called only if needed.
        adjusted: The result of `requests.adjusted()`, computed once before the decoding
            loop.
    """
    drawn, wanted = ops.any(requests.temperature > 0), requests.adjustments
    if wanted is None:
        return _choose(logits, requests, place, drawn)

    def process():
        scores = adjust(logits, wanted, read, adjusted)
        return _choose(scores, requests, place, drawn)

    # A single condition for the common case without sampling or adjustments.
    some = ops.logical_or(drawn, adjusted)
    return ops.cond(some, process, lambda: highest(logits))


def _choose(logits: Any, requests: RequestBatch, place: Any, some_drawn: Any) -> Any:
    drawn = requests.temperature > 0

    def any_draw():
        # A row with temperature 0 is not sampled; this avoids a division by 0.
        temperature = ops.where(drawn, requests.temperature, 1.0)
        scores = logits / ops.expand_dims(temperature, 1)
        narrowed = ops.logical_or(requests.top_k > 0, requests.top_p < 1)
        if requests.min_p is not None:
            narrowed = ops.logical_or(narrowed, requests.min_p > 0)
        scores = ops.cond(
            ops.any(ops.logical_and(drawn, narrowed)),
            lambda: _narrowed(scores, requests),
            lambda: scores,
        )
        token = draw(scores, requests.seeds, place, CHOICE)
        return ops.where(drawn, token, highest(logits))

    return ops.cond(some_drawn, any_draw, lambda: highest(logits))


def _narrowed(scores: Any, requests: RequestBatch) -> Any:
    kept = keep_likeliest(scores, requests.top_k, requests.top_p)
    if requests.min_p is None:
        return kept
    return keep_min_p(kept, ops.expand_dims(requests.min_p, 1))
