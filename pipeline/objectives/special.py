"""The special pieces an objective cannot do without."""

from typing import Literal

from configs.errors import ConfigError
from configs.run import RunConfig
from pipeline.tokenizers.interface import Tokenizer

_PURPOSE = {
    "begin": "stands before a text",
    "end": "stands after a text",
    "mask": "hides a token",
}


def needed(
    tokenizer: Tokenizer, run: RunConfig, name: Literal["begin", "end", "mask"]
) -> int:
    """The id of a special piece.

    Raises:
        ConfigError: The tokenizer has no such piece.
    """
    piece = getattr(tokenizer.special, name)
    if piece is None:
        raise ConfigError(
            f"objective.kind={run.objective.kind} needs a piece that {_PURPOSE[name]}, "
            f"and the tokenizer of tokenizer.kind={run.tokenizer.kind} has none. "
            "Choose special pieces with one (tokenizer.kind=wordpiece has it), or "
            "another objective"
        )
    return piece


def needed_sentinels(tokenizer: Tokenizer, run: RunConfig, count: int) -> list[int]:
    """The ids of the first sentinels.

    Raises:
        ConfigError: The tokenizer has fewer.
    """
    sentinels = tokenizer.special.sentinels
    if len(sentinels) < count:
        raise ConfigError(
            f"objective.kind={run.objective.kind} needs {count} sentinel pieces for "
            f"data.sequence_length={run.data.sequence_length}, and the tokenizer has "
            f"{len(sentinels)}. Set tokenizer.num_sentinels to {count} or more, or "
            "objective.mean_noise_span_length higher"
        )
    return list(sentinels[:count])
