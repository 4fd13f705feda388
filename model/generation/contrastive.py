"""Contrastive search: likely tokens with a degeneration penalty."""

from typing import Any

from keras import ops

from transbeam.configs.schema.generation import ContrastiveConfig, GenerationConfig
from transbeam.model.generation.beam import flat_rows, pick
from transbeam.model.generation.cache_rows import repeat_rows, take_rows
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.generation.logits_processors import ConfigLogitsProcessors
from transbeam.model.generation.sampling import highest
from transbeam.model.generation.token_buffer import TokenBuffer
from transbeam.model.kernels.cache_update import loop_with_cache


def search_contrastively(
    steps: DecodeFunctions,
    prompt: tuple[Any, Any],
    config: GenerationConfig,
    method: ContrastiveConfig,
) -> dict[str, Any]:
    """Generates by contrastive search; see `transbeam.model.generation.generate`.

    Of the `k` most likely tokens, contrastive search selects the token with the highest
    probability minus the largest similarity of its hidden state to those of earlier
    tokens. The model processes all `k` candidates to get their hidden states, which
    also yields the logits after the selected token.

    Shapes: `B` batch, `k` candidates, `S` slots, `V` vocabulary, `D` hidden width.

    Raises:
        ValueError: The model's cache does not contain its hidden states.

    References:
        - [Su et al., 2022](https://arxiv.org/abs/2202.06417), equation 5
    """
    number = method.top_k
    history = TokenBuffer.allocate(*prompt, room=config.max_new_tokens)
    logits, cache = steps.prefill(*prompt, ops.shape(history.token_ids)[1])
    if not isinstance(cache, dict) or "hidden" not in cache:
        raise ValueError(
            "method.kind=contrastive compares hidden states, and the cache has none "
            "under 'hidden'; make the steps with keep_hidden=True"
        )
    rules = ConfigLogitsProcessors(config, logits.shape[-1])
    number = min(number, logits.shape[-1])

    def body(cache, logits, history, finished, lengths):
        scores = rules.adjust(logits, history)
        chances, tokens = ops.top_k(ops.softmax(scores, axis=-1), number)  # (B, k)
        tokens = ops.cast(tokens, "int32")
        read = ops.reshape(tokens, (-1, 1))  # (B k, 1)
        next_logits, cache = steps.step(read, cache, history.length)
        likeness = _likeness(cache["hidden"], history, number)  # (B, k)
        penalty = method.penalty
        best = highest((1 - penalty) * chances - penalty * likeness)[:, None]  # (B, 1)

        token = ops.where(finished, config.pad_token_id, pick(tokens, best)[:, 0])
        ended = rules.finished_by(token, history)
        lengths = lengths + ops.cast(ops.logical_not(finished), "int32")
        finished = ops.logical_or(finished, ended)
        rows = flat_rows(best, number)
        state = (
            ops.take(next_logits[:, 0], rows, axis=0),
            history.append(token),
            finished,
            lengths,
        )
        return take_rows(cache, ops.repeat(rows, number)), state

    lengths = ops.zeros_like(history.token_ids[:, 0])
    start = (logits, history, ops.zeros_like(lengths, dtype="bool"), lengths)
    cache = repeat_rows(cache, number)
    size = config.max_new_tokens
    _, history, _, lengths = loop_with_cache(
        lambda logits, history, finished, _: history.needs_tokens(finished, size),
        body,
        start,
        cache,
    )
    new = history.new_tokens(lengths, size, config.pad_token_id)
    return {"token_ids": new, "lengths": lengths}


def _likeness(hidden, history, number):
    """The largest cosine similarity of each candidate to an earlier token: `(B, k)`.

    Args:
        hidden: float `(B k, S, D)`, hidden states; the first free slot holds the
            candidate's.
        history: The tokens so far, `B` rows.
        number: `k`.
    """
    hidden = ops.cast(hidden, "float32")
    hidden = hidden * ops.rsqrt(
        ops.sum(ops.square(hidden), axis=-1, keepdims=True) + 1e-12
    )
    candidate = ops.take(
        hidden, ops.reshape(history.length, [1]), axis=1
    )  # (B k, 1, D)
    cosines = ops.sum(hidden * candidate, axis=-1)  # (B k, S)
    cosines = ops.reshape(cosines, (-1, number, ops.shape(hidden)[1]))
    earlier = ops.expand_dims(history.filled, 1)  # (B, 1, S)
    return ops.max(ops.where(earlier, cosines, -1.0), axis=-1)
