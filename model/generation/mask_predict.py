"""Mask-predict: fills all masks of a text together, in several iterations.

A masked language model predicts each mask from the text without the others' fills, so
independent best tokens need not go together. Mask-predict fills all masks, masks the
tokens with the lowest probabilities again, fills those with the rest in sight, and so
on with fewer and fewer tokens ([Ghazvininejad et al.,
2019](https://arxiv.org/abs/1904.09324), section 3).
"""

from collections.abc import Callable
from typing import Any

from keras import ops

_NEVER = -1e9  # finite in float32, and below every logit


def mask_predict(
    logits_of: Callable[[Any], Any],
    token_ids: Any,
    iterations: Any,
    *,
    mask_id: int,
    num_masks: Any,
    allowed: Any,
) -> tuple[Any, Any]:
    """Fills the masks of each text.

    With `iterations` T and N masks, iteration t = 0 … T - 1 masks the N (T - t) / T
    tokens (rounded down) with the lowest probabilities and predicts them; a token keeps
    the probability with which it was last predicted. One iteration predicts every mask
    alone.

    Shapes: `B` texts, `L` tokens, `M` at least 1 and at least the masks of the text
    with most masks, `V` vocabulary.

    Args:
        logits_of: Function from int32 `(B, L)` token ids to the logits at the text's
            masks, in their order, `(B, M, V)`.
        token_ids: int32 `(B, L)`, the texts with mask tokens.
        iterations: int32 `(B,)`, the number of iterations of each text, at least 1.
        mask_id: The mask token.
        num_masks: `M`, an int or an int32 scalar.
        allowed: bool `(V,)`, false for tokens that fill no mask, such as `[PAD]`.

    Returns:
        The filled tokens, int32 `(B, M)`, and their log-probabilities, float32
        `(B, M)`; both 0 beyond a text's own masks.

    Example:
    >>> import numpy as np
    >>> def logits_of(token_ids):  # 2 after 1, and the first mask is likely 1
    ...     first = ops.one_hot(ops.ones_like(token_ids[:, :1]), 4) * 5.0
    ...     after = ops.one_hot(ops.minimum(token_ids[:, :1] + 1, 3), 4)
    ...     return ops.concatenate([first, after], axis=1)
    >>> ids, _ = mask_predict(
    ...     logits_of, np.array([[9, 9]], "int32"), np.array([2], "int32"), mask_id=9,
    ...     num_masks=2, allowed=np.ones(4, bool),
    ... )
    >>> ops.convert_to_numpy(ids)
    array([[1, 2]], dtype=int32)
    """
    token_ids = ops.cast(token_ids, "int32")
    is_mask = ops.equal(token_ids, mask_id)
    counts = ops.sum(ops.cast(is_mask, "int32"), axis=1, keepdims=True)  # (B, 1)
    # The number of each mask in its text; for other tokens any valid number.
    numbers = ops.maximum(ops.cumsum(ops.cast(is_mask, "int32"), axis=1) - 1, 0)
    real = ops.expand_dims(ops.arange(num_masks, dtype="int32"), 0) < counts  # (B, M)
    iterations = ops.expand_dims(ops.cast(iterations, "int32"), 1)
    banned = ops.where(allowed, 0.0, _NEVER)

    def body(step, fills, scores):
        # Those with the lowest scores; masks that are not there rank last.
        ranks = ops.argsort(ops.argsort(ops.where(real, scores, 1.0), axis=1), axis=1)
        number = counts * (iterations - step) // iterations
        again = ops.logical_and(real, ops.cast(ranks, "int32") < number)
        shown = ops.where(again, mask_id, fills)
        filled = ops.where(
            is_mask, ops.take_along_axis(shown, numbers, axis=1), token_ids
        )
        logits = ops.cast(logits_of(filled), "float32")
        best = ops.cast(ops.argmax(logits + banned, axis=-1), "int32")
        found = ops.max(logits + banned, axis=-1) - ops.logsumexp(logits, axis=-1)
        return (
            step + 1,
            ops.where(again, best, fills),
            ops.where(again, found, scores),
        )

    _, fills, scores = ops.while_loop(
        lambda step, fills, scores: step < ops.max(iterations),
        body,
        (
            ops.zeros((), "int32"),
            ops.cast(real, "int32") * 0,
            ops.cast(real, "float32") * 0.0,
        ),
    )
    return fills, scores
