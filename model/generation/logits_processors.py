"""Logits processors: changes to the logits before a token is chosen."""

from typing import Any

from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.generation import GenerationConfig
from transbeam.model.generation.stop_sequences import StopSequences, marked
from transbeam.model.generation.token_buffer import TokenBuffer

# The score of a forbidden token. Finite, so that no difference of two is NaN.
NEVER = -1e30


class LogitsRules:
    """The logits processors and stop conditions of a generation config.

    Args:
        config: The generation config.
        vocabulary_size: `V`, for a check of token ids.

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
    """Lowers the scores of tokens that occur in the text so far, with its prompt.

    Example:
    >>> history = TokenBuffer.allocate(ops.array([[0, 1]]), ops.array([[1, 1]]), room=1)
    >>> scores = penalise_repetition(ops.array([[4.0, -4.0, 4.0]]), history, 2.0)
    >>> ops.convert_to_numpy(scores)
    array([[ 2., -8.,  4.]], dtype=float32)

    References:
        - [Keskar et al., 2019](https://arxiv.org/abs/1909.05858), section 4.1; a
          negative score is multiplied, since dividing would raise it
    """
    seen = marked(history.token_ids, history.filled, scores.shape[-1])
    lowered = ops.where(scores > 0, scores / penalty, scores * penalty)
    return ops.where(seen, lowered, scores)


def ban(scores: Any, banned: Any) -> Any:
    """Sets the scores of banned tokens to `NEVER`: scores `(B, V)`, bool `(B, V)`."""
    return ops.where(banned, NEVER, scores)


def force(scores: Any, history: TokenBuffer, tokens: tuple[int, ...]) -> Any:
    """Bans all tokens except the forced one, whose score becomes 0.

    Args:
        scores: float32 `(B, V)`.
        history: The tokens so far.
        tokens: The forced first new tokens; later scores are unchanged.
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
