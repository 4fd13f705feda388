"""The interface of a model for generation: two functions."""

from collections.abc import Callable
from typing import Any, NamedTuple


class DecodeFunctions(NamedTuple):
    """The functions of a model that the decoding methods call.

    Shapes: `B` batch, `P` length of the prompts, `Q` new tokens, `S` slots of the
    cache, `V` vocabulary, `D` hidden width.

    Attributes:
        prefill: `prefill(token_ids, padding_mask, slots)` processes the prompts, int32
            `(B, P)` padded on the left, and returns the logits of the next token,
            float32 `(B, V)`, and a cache with room for `slots` tokens.
        step: `step(token_ids, cache, index)` processes int32 `(B, Q)` more tokens when
            `index` slots are filled, and returns the logits after each of them, float32
            `(B, Q, V)`, and the new cache.
        max_length: Maximum number of tokens of a text, including its prompt; None for
            no limit.
        can_rewind: True if `index` may decrease, to discard tokens.
        begin: `begin()` returns these functions for one generation, with computations
            that all steps share done in advance; None if there are no such
            computations.

    A cache is any nested structure of tensors whose first axis is the batch. If the
    cache is a dict, the entries of `"context"` are the same for all rows with the same
    prompt, and `"hidden"`, float `(B, S, D)`, holds the last hidden state of each
    token.
    """

    prefill: Callable[[Any, Any, Any], tuple[Any, Any]]
    step: Callable[[Any, Any, Any], tuple[Any, Any]]
    max_length: int | None = None
    can_rewind: bool = True
    begin: Callable[[], "DecodeFunctions"] | None = None
