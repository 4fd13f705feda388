"""Checks for the special tokens that an objective requires."""

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
    """Rejects a tokenizer without the special tokens of the run's objective.

    Raises:
        ConfigError: A required token is missing; the message suggests a change.
    """
    for piece in pieces_needed(run):
        if getattr(special, piece) is None:
            raise missing_piece(run.objective, run.tokenizer, piece)
    if isinstance(run.objective, SpanCorruptionConfig):
        there = len(special.sentinels)
        check_sentinels(run.objective, run.data.sequence_length, there)


def needed(
    tokenizer: Tokenizer, run: RunConfig, name: Literal["begin", "end", "mask"]
) -> int:
    """Returns the id of a special token.

    Raises:
        ConfigError: The tokenizer has no such token.
    """
    piece = getattr(tokenizer.special, name)
    if piece is None:
        raise missing_piece(run.objective, run.tokenizer, name)
    return piece


def needed_sentinels(tokenizer: Tokenizer, run: RunConfig) -> list[int]:
    """Returns the ids of the sentinels for the spans of one text.

    Raises:
        ConfigError: The tokenizer has too few sentinels.
    """
    assert isinstance(run.objective, SpanCorruptionConfig)
    sentinels, length = tokenizer.special.sentinels, run.data.sequence_length
    check_sentinels(run.objective, length, len(sentinels))
    return list(sentinels[: run.objective.num_sentinels(length)])
