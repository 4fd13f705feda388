"""Log-likelihoods of continuations, with each context read once.

Several continuations of one context, such as the choices of a question, share its keys
and values: the context passes through the model once, and the cache is repeated for its
continuations.
"""

from typing import Any

from keras import ops

from transbeam.model.generation.cache_rows import gather_rows
from transbeam.model.generation.decode_functions import DecodeFunctions


def continuation_scores(
    steps: DecodeFunctions,
    context_ids: Any,
    context_mask: Any,
    rows: Any,
    token_ids: Any,
    padding_mask: Any,
) -> Any:
    """Computes the log-likelihood of each token of some continuations.

    Shapes: `C` contexts, `P` length of the contexts, `B` continuations, `Q` length of
    the continuations. Padding changes no result, nor do other rows.

    Args:
        steps: The model; see `transbeam.model.generation.keras_decode_functions`.
        context_ids: int32 `(C, P)`, the contexts, padded on the left, each with at
            least one token.
        context_mask: int32 `(C, P)`, 0 for padding.
        rows: int32 `(B,)`, the index of each continuation's context.
        token_ids: int32 `(B, Q)`, the continuations, padded on the right.
        padding_mask: int32 `(B, Q)`, 0 for padding.

    Returns:
        float32 `(B, Q)`, the log-probability of each token in nats, given the context
        and the continuation's earlier tokens; 0 for padding.

    Example:
    >>> def prefill(token_ids, padding_mask, slots):
    ...     return ops.log([[0.25, 0.75]]), ()
    >>> def step(token_ids, cache, index):
    ...     return ops.log([[[0.5, 0.5]], [[0.5, 0.5]]]), ()
    >>> one = ops.ones((1, 1), "int32")
    >>> scores = continuation_scores(
    ...     DecodeFunctions(prefill, step), one, one, ops.array([0, 0]),
    ...     ops.array([[0, 1], [1, 0]]), ops.array([[1, 1], [1, 0]]),
    ... )
    >>> ops.convert_to_numpy(ops.exp(scores)).round(4).tolist()
    [[0.25, 0.5], [0.75, 1.0]]
    """
    steps = steps.begin() if steps.begin else steps
    length, more = ops.shape(context_ids)[1], ops.shape(token_ids)[1]
    logits, cache = steps.prefill(context_ids, context_mask, length + more)
    logits = ops.expand_dims(ops.take(logits, rows, axis=0), 1)  # (B, 1, V)
    found = [token_scores(logits, token_ids[:, :1])]
    if more > 1:
        cache = gather_rows(cache, rows)
        logits, _ = steps.step(token_ids[:, :-1], cache, length)
        found.append(token_scores(logits, token_ids[:, 1:]))
    return ops.concatenate(found, axis=1) * ops.cast(padding_mask, "float32")


def token_scores(logits: Any, token_ids: Any) -> Any:
    """Log-probabilities of tokens under the logits of their positions.

    Args:
        logits: float `(B, Q, V)`.
        token_ids: int32 `(B, Q)`.

    Returns:
        float32 `(B, Q)`, in nats.
    """
    logits = ops.cast(logits, "float32")
    chosen = ops.take_along_axis(logits, ops.expand_dims(token_ids, -1), axis=-1)
    return chosen[..., 0] - ops.logsumexp(logits, axis=-1)
