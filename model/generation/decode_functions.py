"""The interface of a model for generation: two functions."""

from collections.abc import Callable
from typing import Any, NamedTuple


class DecodeFunctions(NamedTuple):
    """A model as writing sees it.

    Shapes: `B` batch, `P` length of the prompts, `Q` new tokens, `S` slots of the
    cache, `V` vocabulary, `D` hidden width.

    Attributes:
        prefill: `prefill(token_ids, padding_mask, slots)` reads the prompts, int32
            `(B, P)` padded on the left, and gives the logits of what comes next,
            float32 `(B, V)`, and a cache with room for `slots` tokens.
        step: `step(token_ids, cache, index)` reads int32 `(B, Q)` more tokens when
            `index` of the slots are filled, and gives the logits after each of them,
            float32 `(B, Q, V)`, and the new cache.
        max_length: Most tokens of a text that the model can read, its prompt among
            them; None for any number.
        can_rewind: Whether `index` may be less than before, to forget tokens.
        begin: `begin()` gives the same for one generation, with all that is the same
            in each of its steps made once; None when there is nothing of that.

    A cache is any nested structure of tensors whose first axis is the batch. If it is
    a dict, what stands under `"context"` is the same for all rows made of one prompt,
    and `"hidden"`, float `(B, S, D)`, holds the last hidden state of each token.
    """

    prefill: Callable[[Any, Any, Any], tuple[Any, Any]]
    step: Callable[[Any, Any, Any], tuple[Any, Any]]
    max_length: int | None = None
    can_rewind: bool = True
    begin: Callable[[], "DecodeFunctions"] | None = None
