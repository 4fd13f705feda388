"""Speculative decoding: a draft model proposes tokens, the model verifies them."""

from typing import Any

from keras import ops

from transbeam.configs.schema.generation import GenerationConfig, SpeculativeConfig
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.generation.logits_processors import ConfigLogitsProcessors
from transbeam.model.generation.sampling import (
    ACCEPTANCE,
    CHOICE,
    CORRECTION,
    DRAFT,
    draw,
    highest,
    random_uniform,
    shape_scores,
)
from transbeam.model.generation.token_buffer import TokenBuffer
from transbeam.model.kernels.cache_update import loop_with_cache


def write_ahead(
    steps: DecodeFunctions,
    draft: DecodeFunctions,
    prompt: tuple[Any, Any],
    config: GenerationConfig,
    method: SpeculativeConfig,
    seeds: Any,
) -> dict[str, Any]:
    """Generates by speculative decoding; see `transbeam.model.generation.generate`.

    In each round the draft model proposes `k` tokens, and the model computes the logits
    of all of them in one step. The longest accepted prefix of the proposal is kept,
    followed by the model's own token in place of the first rejected token.

    All rows advance by the smallest number of tokens that any row has determined. The
    remaining tokens of other rows are generated again, with the same result: every
    random number belongs to an index in the text, not to a round. So a row's text
    depends neither on other rows nor on `k`. The extra token that the paper's algorithm
    adds after `k` accepted tokens would make texts depend on `k`, and costs as much as
    another draft token.

    Args:
        steps: The model.
        draft: The draft model, smaller than the verifying model and with the same
            vocabulary.
        prompt: Token ids and padding mask, int32 `(B, P)`.
        config: The generation config.
        method: Its speculative method.
        seeds: int `(B,)`; only used for sampling.

    Raises:
        ValueError: The vocabularies differ, or a model's cache cannot be rewound.

    References:
        - [Leviathan et al., 2023](https://arxiv.org/abs/2211.17192), algorithm 1
    """
    ahead, num_new = method.num_draft_tokens, config.max_new_tokens
    history = TokenBuffer.allocate(*prompt, room=num_new + ahead)
    slots = ops.shape(history.token_ids)[1]
    logits, cache = steps.prefill(*prompt, slots)
    draft_logits, draft_cache = draft.prefill(*prompt, slots)
    _check(steps, draft, logits, draft_logits)
    rules = ConfigLogitsProcessors(config, logits.shape[-1])
    chooser = _Drawn(method, seeds) if method.sample else _Greedy()

    def body(caches, history, finished, lengths):
        cache, draft_cache = caches
        start, last = history.length - 1, history.last()
        histories, tokens, proposals = [history], [last], []
        for place in range(ahead):
            logits, draft_cache = draft.step(tokens[-1], draft_cache, start + place)
            scores = rules.adjust(logits[:, 0], histories[-1])
            proposal = chooser.choose(scores, histories[-1], DRAFT)
            proposals.append((proposal, scores))
            histories.append(histories[-1].append(proposal))
            tokens.append(ops.expand_dims(proposal, 1))
        logits, cache = steps.step(
            ops.concatenate(tokens[:-1], axis=1), cache, start
        )  # (B, k, V)

        # A row's history has the draft's tokens up to the first rejected one; decisions
        # after that one are not used.
        decided, accepted, ends = [], [], []
        for place, (before, (proposal, scores)) in enumerate(
            zip(histories, proposals, strict=False)
        ):
            own = rules.adjust(logits[:, place], before)
            token, is_accepted = chooser.decide(own, proposal, scores, before)
            decided.append(token)
            accepted.append(is_accepted)
            ends.append(rules.finished_by(token, before))
        state = _advance((history, finished, lengths), decided, accepted, ends, config)
        return (cache, draft_cache), state

    token = chooser.choose(rules.adjust(logits, history), history, CHOICE)
    start = (
        history.append(token),
        rules.finished_by(token, history),
        ops.ones_like(token),
    )
    history, _, lengths = loop_with_cache(
        lambda history, finished, _: history.needs_tokens(finished, num_new),
        body,
        start,
        (cache, draft_cache),
    )
    new = history.new_tokens(lengths, num_new, config.pad_token_id)
    return {"token_ids": new, "lengths": lengths}


def _advance(state, decided, accepted, ends, config):
    """Advances all rows by the number of tokens that every row has determined.

    Args:
        state: The token buffer, finished rows `(B,)` and lengths `(B,)` before the
            round.
        decided: `k` int32 tensors `(B,)`, the tokens of the round; the tokens of a row
            are valid up to its first rejection.
        accepted: `k` bool tensors `(B,)`, true if the token was proposed by the draft
            model.
        ends: `k` bool tensors `(B,)`, true if the token ends the text.
        config: The generation config.
    """
    history, finished, lengths = state
    valid = ops.ones_like(finished)  # true if all before were accepted
    open_rows, counts = [], ops.zeros_like(lengths)
    ended = finished
    for is_accepted, is_end in zip(accepted, ends, strict=True):
        open_rows.append(ops.logical_not(ended))
        counts = counts + ops.cast(ops.logical_or(valid, ended), "int32")
        ended = ops.logical_or(ended, ops.logical_and(valid, is_end))
        valid = ops.logical_and(valid, is_accepted)
    size = ops.min(counts)  # rows whose text has ended do not limit it
    size = ops.minimum(size, config.max_new_tokens - history.num_new)

    for place, (is_open, is_end) in enumerate(zip(open_rows, ends, strict=True)):
        taken = ops.logical_and(is_open, place < size)
        lengths = lengths + ops.cast(taken, "int32")
        finished = ops.logical_or(finished, ops.logical_and(taken, is_end))
    history = history.write(ops.stack(decided, axis=1))
    return history._replace(length=history.length + size), finished, lengths


class _Greedy:
    """Greedy decoding: the draft's token is accepted if it has the highest score."""

    def choose(self, scores, history, purpose):
        return highest(scores)

    def decide(self, scores, proposal, draft_scores, history):
        token = highest(scores)
        return token, ops.equal(token, proposal)


class _Drawn:
    """Sampling; tokens are distributed as if sampled from the model alone."""

    def __init__(self, method: SpeculativeConfig, seeds: Any):
        self.method = method
        self.seeds = seeds

    def choose(self, scores, history, purpose):
        scores = shape_scores(scores, self.method)
        return draw(scores, self.seeds, history.num_new, purpose)

    def decide(self, scores, proposal, draft_scores, history):
        scores = shape_scores(scores, self.method)
        chances = ops.softmax(scores, axis=-1)
        drafted = ops.softmax(shape_scores(draft_scores, self.method), axis=-1)
        number = random_uniform(self.seeds, history.num_new, ACCEPTANCE)
        place = ops.expand_dims(proposal, 1)
        chance = ops.take_along_axis(chances, place, axis=1)[:, 0]
        drafted_chance = ops.take_along_axis(drafted, place, axis=1)[:, 0]
        accepted = number * drafted_chance < chance

        # The residual distribution: tokens that the draft proposes too rarely.
        missing = ops.maximum(chances - drafted, 0.0)
        missing = ops.where(missing > 0, ops.log(ops.maximum(missing, 1e-38)), -1e30)
        correction = draw(missing, self.seeds, history.num_new, CORRECTION)
        return ops.where(accepted, proposal, correction), accepted


def _check(steps, draft, logits, draft_logits):
    if logits.shape[-1] != draft_logits.shape[-1]:
        raise ValueError(
            f"draft: its logits have shape {tuple(draft_logits.shape)}; expected the "
            f"model's vocabulary, {tuple(logits.shape)}"
        )
    for name, model in (("steps", steps), ("draft", draft)):
        if not model.can_rewind:
            raise ValueError(
                f"{name}: its cache cannot drop tokens, as speculative decoding "
                "requires: kernel attention keeps sums over all tokens read"
            )
