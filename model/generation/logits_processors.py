"""Logits processors whose parameters come from a config or differ for each row.

Per-row parameters are tensors. A processor that no row uses is not computed.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.generation import GenerationConfig
from transbeam.model.generation.stop_sequences import StopSequences, mark_tokens
from transbeam.model.generation.token_buffer import TokenBuffer

# The score of a forbidden token. Finite, so that no difference of two is NaN.
NEVER = -1e30


class ConfigLogitsProcessors:
    """The logits processors and stop conditions of a generation config.

    Args:
        config: The generation config.
        vocabulary_size: The vocabulary size `V`, to check token ids.

    Raises:
        ConfigError: The config names a token that does not exist.
    """

    def __init__(self, config: GenerationConfig, vocabulary_size: int):
        self.config = config
        _check_tokens(config, vocabulary_size)
        ids = [(token,) for token in dict.fromkeys(config.stop_token_ids)]
        self.stops = StopSequences([*ids, *config.stop_sequences])
        self.banned = StopSequences(config.banned_sequences)

    def adjust(self, scores: Any, history: TokenBuffer) -> Any:
        """Applies the processors to the scores of the next token.

        Args:
            scores: float32 `(B, V)`, logits or log-probabilities.
            history: The tokens so far, `B` rows.
        """
        config, vocabulary_size = self.config, scores.shape[-1]
        if config.repetition_penalty != 1:
            scores = penalise_repetition(scores, history, config.repetition_penalty)
        if len(self.banned):
            ends = self.banned.about_to_end(history)
            scores = ban(scores, self.banned.completing_tokens(ends, vocabulary_size))
        if config.min_new_tokens > 1 and len(self.stops):
            ends = self.stops.about_to_end(history, only_new=True)
            ends = ops.logical_and(ends, history.num_new + 1 < config.min_new_tokens)
            scores = ban(scores, self.stops.completing_tokens(ends, vocabulary_size))
        if config.forced_tokens:
            scores = force(scores, history, config.forced_tokens)
        return scores

    def finished_by(self, tokens: Any, history: TokenBuffer) -> Any:
        """Marks rows whose text ends with a next token `(B,)`: bool `(B,)`."""
        if not len(self.stops):
            return ops.zeros_like(tokens, dtype="bool")
        ends = self.stops.about_to_end(history, only_new=True)
        return self.stops.completed_by(tokens, ends)


def penalise_repetition(scores: Any, history: TokenBuffer, penalty: float) -> Any:
    """Lowers the scores of tokens that occur in the prompt or in the text so far.

    Example:
    >>> history = TokenBuffer.allocate(ops.array([[0, 1]]), ops.array([[1, 1]]), room=1)
    >>> scores = penalise_repetition(ops.array([[4.0, -4.0, 4.0]]), history, 2.0)
    >>> ops.convert_to_numpy(scores)
    array([[ 2., -8.,  4.]], dtype=float32)

    References:
        - [Keskar et al., 2019](https://arxiv.org/abs/1909.05858), section 4.1; a
          negative score is multiplied, since dividing would raise it
    """
    seen = mark_tokens(history.token_ids, history.filled, scores.shape[-1])
    lowered = ops.where(scores > 0, scores / penalty, scores * penalty)
    return ops.where(seen, lowered, scores)


def ban(scores: Any, banned: Any) -> Any:
    """Sets the scores of banned tokens to `NEVER`: scores `(B, V)`, bool `(B, V)`."""
    return ops.where(banned, NEVER, scores)


def force(scores: Any, history: TokenBuffer, tokens: tuple[int, ...]) -> Any:
    """Bans all tokens except the forced one, whose score becomes 0.

    Args:
        scores: float32 `(B, V)`.
        history: The prompts and the tokens generated so far.
        tokens: The tokens forced at the beginning of the generated text; the scores of
            later tokens are unchanged.
    """
    place = ops.minimum(history.num_new, len(tokens) - 1)
    token = ops.take(ops.convert_to_tensor(tokens, "int32"), place)
    is_forced = ops.equal(ops.arange(scores.shape[-1], dtype="int32"), token)
    forced = ops.expand_dims(ops.where(is_forced, 0.0, NEVER), 0)
    return ops.where(history.num_new < len(tokens), forced, scores)


def _check_tokens(config: GenerationConfig, vocabulary_size: int) -> None:
    named = {
        "stop_token_ids": config.stop_token_ids,
        "forced_tokens": config.forced_tokens,
        "stop_sequences": sum(config.stop_sequences, ()),
        "banned_sequences": sum(config.banned_sequences, ()),
        "pad_token_id": (config.pad_token_id,),
    }
    for key, tokens in named.items():
        if max(tokens, default=0) >= vocabulary_size:
            raise ConfigError(
                f"{key}: there is no token {max(tokens)}; ids go up to "
                f"{vocabulary_size - 1}"
            )


class RowLogitsProcessor(NamedTuple):
    """The logits processors of each of `B` rows.

    Attributes:
        repetition_penalty: float32 `(B,)`, above 0; 1 for no penalty.
        no_repeat_ngram_size: int32 `(B,)`; 0 to allow all n-grams.
        bias_ids: int32 `(B, K)`, tokens with a logit bias.
        biases: float32 `(B, K)`, the biases; 0 for unused entries.
    """

    repetition_penalty: Any
    no_repeat_ngram_size: Any
    bias_ids: Any
    biases: Any

    def any(self) -> Any:
        """Checks if any row has a processor: bool scalar, the same at each token."""
        penalised = ops.any(ops.not_equal(self.repetition_penalty, 1.0))
        biased = ops.any(ops.not_equal(self.biases, 0.0))
        unrepeated = ops.any(self.no_repeat_ngram_size > 0)
        return ops.logical_or(penalised, ops.logical_or(biased, unrepeated))


class GeneratedRows(NamedTuple):
    """Prompts and generated tokens so far, in rows that end in the same column.

    Attributes:
        token_ids: int32 `(B, L)`.
        real: bool `(B, L)`, true for tokens of prompt and text.
        length: int32 scalar, the column after the last token.
    """

    token_ids: Any
    real: Any
    length: Any


def adjust(
    scores: Any,
    wanted: RowLogitsProcessor,
    read: Callable[[], GeneratedRows],
    some: Any,
) -> Any:
    """Applies each row's logits processors to the scores of the next token.

    The repetition penalty is applied first, then the biases; last, tokens that would
    repeat an n-gram are banned, so that no bias can allow them again. Temperature,
    `top_k`, `top_p` and `min_p` are applied later.

    Args:
        scores: float32 `(B, V)`, logits.
        wanted: The logits processors of each row.
        read: A function that returns the tokens so far; called only if needed.
        some: The result of `wanted.any()`, computed once before the decoding loop.

    Example:
    >>> texts = GeneratedRows(ops.array([[0, 1, 0]]), ops.array([[True] * 3]), 3)
    >>> wanted = RowLogitsProcessor(
    ...     ops.array([2.0]), ops.array([2]), ops.array([[2, 0]]), ops.array([[0.5, 0]])
    ... )
    >>> scores = ops.array([[4.0, -4.0, 4.0]])
    >>> scores = adjust(scores, wanted, lambda: texts, wanted.any())
    >>> (ops.convert_to_numpy(scores) > NEVER).tolist()  # after 0 came 1
    [[True, False, True]]
    """

    def adjusted():
        texts = read()
        unrepeated = ops.any(wanted.no_repeat_ngram_size > 0)
        found = penalise(scores, wanted.repetition_penalty, texts)
        found = add_biases(found, wanted.bias_ids, wanted.biases)
        return ops.cond(
            unrepeated,
            lambda: ban_ngrams(found, wanted.no_repeat_ngram_size, texts),
            lambda: found,
        )

    return ops.cond(some, adjusted, lambda: scores)


def penalise(scores: Any, penalty: Any, texts: GeneratedRows) -> Any:
    """Lowers the scores of tokens that occur in the prompt or in the text so far.

    Positive scores are divided and negative ones multiplied, as in Hugging Face's
    `RepetitionPenaltyLogitsProcessor`.

    Args:
        scores: float32 `(B, V)`.
        penalty: float32 `(B,)`; a value below 1 raises the scores.
        texts: The tokens so far.

    References:
        - [Keskar et al., 2019](https://arxiv.org/abs/1909.05858), section 4.1
    """
    seen = mark_tokens(texts.token_ids, texts.real, scores.shape[-1])
    penalty = ops.expand_dims(penalty, 1)
    lowered = ops.where(scores > 0, scores / penalty, scores * penalty)
    return ops.where(seen, lowered, scores)


def add_biases(scores: Any, bias_ids: Any, biases: Any) -> Any:
    """Adds biases to the scores of some tokens, like `logit_bias` of OpenAI's API.

    Args:
        scores: float32 `(B, V)`.
        bias_ids: int32 `(B, K)`.
        biases: float32 `(B, K)`; biases of the same token add up.
    """
    batch, number = ops.shape(bias_ids)
    rows = ops.repeat(ops.arange(batch, dtype="int32"), number)
    indices = ops.stack([rows, ops.reshape(bias_ids, [-1])], axis=1)  # (B K, 2)
    shape = ops.shape(scores)
    return scores + ops.scatter(indices, ops.reshape(biases, [-1]), shape)


def ban_ngrams(scores: Any, size: Any, texts: GeneratedRows) -> Any:
    """Bans tokens that would complete an n-gram which already occurs in the text.

    N-grams of the prompt are banned too, as in Hugging Face's
    `NoRepeatNGramLogitsProcessor`; the rule is that of fairseq's `no_repeat_ngram_size`
    ([Paulus et al., 2018](https://arxiv.org/abs/1705.04304), section 2.5).

    Args:
        scores: float32 `(B, V)`.
        size: int32 `(B,)`, the length `n` of the n-grams that may not repeat; 0 to
            allow all n-grams.
        texts: The tokens so far.
    """
    token_ids, real, length = texts
    columns = ops.arange(ops.shape(token_ids)[1], dtype="int32")
    before = ops.expand_dims(size - 1, 1)  # (B, 1), tokens of an n-gram but its last

    def some_left(back, repeated):
        wanted = ops.logical_and(repeated, back < before)
        return ops.any(wanted)

    def one_further_back(back, repeated):
        """Keeps positions whose `back` preceding tokens equal the row's last tokens."""
        place = columns - 1 - back
        last = length - 1 - back
        same = ops.equal(_at(token_ids, place), _at(token_ids, last))
        there = ops.logical_and(_at(real, place), _at(real, last))
        there = ops.logical_and(there, ops.expand_dims(place >= 0, 0))
        there = ops.logical_and(there, last >= 0)
        same = ops.logical_and(same, there)
        return back + 1, ops.logical_and(repeated, ops.logical_or(same, back >= before))

    start = ops.logical_and(real, ops.expand_dims(size > 0, 1))
    zero = ops.convert_to_tensor(0, "int32")
    _, repeated = ops.while_loop(some_left, one_further_back, (zero, start))
    return ops.where(mark_tokens(token_ids, repeated, scores.shape[-1]), NEVER, scores)


def _at(rows: Any, columns: Any) -> Any:
    """Gathers columns of `(B, L)` by index; a scalar index gives `(B, 1)`."""
    columns = ops.reshape(ops.maximum(columns, 0), [-1])
    return ops.take(rows, columns, axis=1)
