"""Generates text from prompts, by any decoding method."""

from collections.abc import Callable
from typing import Any

from keras import ops

from transbeam.configs.schema.generation import (
    BeamConfig,
    ContrastiveConfig,
    GenerationConfig,
    GreedyConfig,
    SampleConfig,
    SpeculativeConfig,
)
from transbeam.model.generation.beam import search_beams
from transbeam.model.generation.contrastive import search_contrastively
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.generation.logits_processors import ConfigLogitsProcessors
from transbeam.model.generation.prompt_checks import (
    check_length,
    check_prompts,
    check_seeds,
)
from transbeam.model.generation.sampling import CHOICE, draw, highest, shape_scores
from transbeam.model.generation.speculative import write_ahead
from transbeam.model.generation.token_buffer import TokenBuffer
from transbeam.model.kernels.cache_update import loop_with_cache


def generate(
    steps: DecodeFunctions,
    token_ids: Any,
    padding_mask: Any = None,
    *,
    config: GenerationConfig,
    seeds: Any = None,
    draft: DecodeFunctions | None = None,
) -> dict[str, Any]:
    """Generates tokens for all rows of a batch, until all have ended.

    Shapes are static, so that the function can be compiled: call it in a `tf.function`
    or `jax.jit`. A row's text depends only on its own prompt and seed, neither on other
    rows nor on padding.

    Shapes: `B` batch, `P` length of the prompts, `N` `max_new_tokens`, `R` results.

    Args:
        steps: The model; see `transbeam.model.generation.keras_decode_functions`.
        token_ids: int `(B, P)`, the prompts, padded on the left.
        padding_mask: int `(B, P)`, 0 for padding; None if no prompt is padded.
        config: Method, length and stop conditions.
        seeds: int `(B,)`, a seed for each request; required for sampling.
        draft: The draft model of `speculative`.

    Returns:
        dict of tensors: `token_ids` int32 `(B, N)`, the new tokens, then
        `pad_token_id`; `lengths` int32 `(B,)`, the number of new tokens, with the token
        or the sequence that ended the text. For `beam`, `token_ids` is `(B, R, N)`,
        `lengths` is `(B, R)`, and `scores`, float32 `(B, R)`, is also returned, best
        first.

    Raises:
        ConfigError: The config names a token that does not exist.
        DataError: A prompt is empty or not padded on the left, or the text would be
            longer than the model can read.
        ValueError: A tensor has a wrong shape or dtype, or a required tensor is
            missing.

    Example:
    >>> def prefill(token_ids, padding_mask, slots):
    ...     return scores_after(token_ids)[:, -1], ()
    >>> def step(token_ids, cache, index):
    ...     return scores_after(token_ids), ()
    >>> def scores_after(token_ids):  # counts up
    ...     return ops.one_hot(token_ids + 1, 10)
    >>> config = GenerationConfig(max_new_tokens=5, stop_token_ids=(6,))
    >>> model = DecodeFunctions(prefill, step)
    >>> result = generate(model, ops.array([[2], [4]]), config=config)
    >>> ops.convert_to_numpy(result["token_ids"])
    array([[3, 4, 5, 6, 0],
           [5, 6, 0, 0, 0]], dtype=int32)
    >>> ops.convert_to_numpy(result["lengths"])
    array([4, 2], dtype=int32)
    """
    token_ids = ops.convert_to_tensor(token_ids)
    if padding_mask is None:
        padding_mask = ops.ones_like(token_ids)
    padding_mask = ops.convert_to_tensor(padding_mask)
    check_prompts(token_ids, padding_mask)
    token_ids = ops.cast(token_ids, "int32")
    padding_mask = ops.cast(padding_mask, "int32")
    check_length(steps, config, token_ids.shape[1])
    prompt = (token_ids, padding_mask)
    steps = steps.begin() if steps.begin else steps
    match config.method:
        case GreedyConfig():
            return _write(steps, prompt, config, lambda scores, _: highest(scores))
        case SampleConfig() as method:
            seeds = check_seeds(seeds, token_ids)

            def choose(scores, history):
                scores = shape_scores(scores, method)
                return draw(scores, seeds, history.num_new, CHOICE)

            return _write(steps, prompt, config, choose)
        case BeamConfig() as method:
            return search_beams(steps, prompt, config, method)
        case ContrastiveConfig() as method:
            return search_contrastively(steps, prompt, config, method)
        case SpeculativeConfig() as method:
            if draft is None:
                raise ValueError(
                    "draft is None; method.kind=speculative needs a small model that "
                    "writes ahead"
                )
            check_length(draft, config, token_ids.shape[1])
            draft = draft.begin() if draft.begin else draft
            if method.sample:
                seeds = check_seeds(seeds, token_ids)
            return write_ahead(steps, draft, prompt, config, method, seeds)


def _write(
    steps: DecodeFunctions,
    prompt: tuple[Any, Any],
    config: GenerationConfig,
    choose: Callable[[Any, TokenBuffer], Any],
) -> dict[str, Any]:
    """Generates one token after another, selected by `choose` from the logits."""
    history = TokenBuffer.allocate(*prompt, room=config.max_new_tokens)
    slots = ops.shape(history.token_ids)[1]
    logits, cache = steps.prefill(*prompt, slots)
    rules = ConfigLogitsProcessors(config, logits.shape[-1])

    def extend(logits, history, finished, lengths):
        token = choose(rules.adjust(logits, history), history)
        token = ops.where(finished, config.pad_token_id, token)
        lengths = lengths + ops.cast(ops.logical_not(finished), "int32")
        ended = rules.finished_by(token, history)
        return history.append(token), ops.logical_or(finished, ended), lengths

    def body(cache, history, finished, lengths):
        logits, cache = steps.step(history.last(), cache, history.length - 1)
        return cache, extend(logits[:, 0], history, finished, lengths)

    lengths = ops.zeros_like(prompt[0][:, 0])
    finished = ops.zeros_like(lengths, dtype="bool")
    start = extend(logits, history, finished, lengths)
    history, _, lengths = loop_with_cache(
        lambda history, finished, _: history.needs_tokens(
            finished, config.max_new_tokens
        ),
        body,
        start,
        cache,
    )
    new = history.new_tokens(lengths, config.max_new_tokens, config.pad_token_id)
    return {"token_ids": new, "lengths": lengths}
