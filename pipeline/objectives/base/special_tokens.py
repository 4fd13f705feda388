"""The special pieces an objective cannot do without."""

from typing import Literal

from transbeam.configs.loader.objective_requirements import (
    check_sentinels,
    missing_piece,
    pieces_needed,
)
from transbeam.configs.schema.objectives.language_modeling import SpanCorruptionConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.tokenizers.base.interface import SpecialIds, Tokenizer


def check_special(special: SpecialIds, run: RunConfig) -> None:
    """Refuses a tokenizer that lacks what the run's objective needs.

    Raises:
        ConfigError: With what is missing, and what to do.
    """
    for piece in pieces_needed(run.objective):
        if getattr(special, piece) is None:
            raise missing_piece(run.objective, run.tokenizer, piece)
    if isinstance(run.objective, SpanCorruptionConfig):
        there = len(special.sentinels)
        check_sentinels(run.objective, run.data.sequence_length, there)


def needed(
    tokenizer: Tokenizer, run: RunConfig, name: Literal["begin", "end", "mask"]
) -> int:
    """The id of a special piece.

    Raises:
        ConfigError: The tokenizer has no such piece.
    """
    piece = getattr(tokenizer.special, name)
    if piece is None:
        raise missing_piece(run.objective, run.tokenizer, name)
    return piece


def needed_sentinels(tokenizer: Tokenizer, run: RunConfig) -> list[int]:
    """The ids of the sentinels that the spans of one text may take.

    Raises:
        ConfigError: The tokenizer has fewer.
    """
    assert isinstance(run.objective, SpanCorruptionConfig)
    sentinels, length = tokenizer.special.sentinels, run.data.sequence_length
    check_sentinels(run.objective, length, len(sentinels))
    return list(sentinels[: run.objective.num_sentinels(length)])
