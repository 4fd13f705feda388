"""Compares the models of two runs: what must be the same for weights to fit both."""

from typing import Any, cast

from transbeam.configs.base.reflection import plain
from transbeam.configs.schema.attention import (
    BlockSparseAttentionConfig,
    KernelAttentionConfig,
    LowRankAttentionConfig,
)
from transbeam.configs.schema.block import LearnedPositionConfig
from transbeam.configs.schema.model import Model
from transbeam.configs.schema.run import RunConfig

# Keys of `model` that may differ: they change no weight of the body, but for the length
# where each place has a weight.
FREE = ("dropout", "initializer", "max_sequence_length", "pooler")


def model_differences(there: RunConfig, here: RunConfig) -> list[str]:
    """Lists keys of `model` that differ and must not, for weights to mean the same.

    Example:
    >>> from dataclasses import replace
    >>> from transbeam.configs.schema.data import DataConfig
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.configs.schema.sources import TextSourceConfig
    >>> data = DataConfig(source=TextSourceConfig(path="corpus.txt"))
    >>> four = RunConfig(name="bert", data=data, model=EncoderConfig(dropout=0.1))
    >>> six = replace(four, model=EncoderConfig(num_layers=6, dropout=0.0))
    >>> model_differences(four, six)
    ['model.num_layers: 4 there, 6 here']
    """
    old, new = (_leaves(plain(run.model), "model") for run in (there, here))
    if _has_a_weight_per_place(here.model):
        key = "model.max_sequence_length"
        old[key], new[key] = (run.model.max_sequence_length for run in (there, here))
    if _draws_by_seed(here.model):
        # Features and blocks that are drawn by the seed are no weights.
        old["seed"], new["seed"] = there.seed, here.seed
    return [
        f"{key}: {old.get(key, 'nothing')} there, {new.get(key, 'nothing')} here"
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
    ]


def _has_a_weight_per_place(model: Model) -> bool:
    return isinstance(model.position, LearnedPositionConfig) or isinstance(
        model.attention, LowRankAttentionConfig
    )


def _draws_by_seed(model: Model) -> bool:
    match model.attention:
        case KernelAttentionConfig(feature_map=features):
            return features != "elu"
        case BlockSparseAttentionConfig(num_random_blocks=number):
            return number > 0
        case _:
            return False


def _leaves(value: Any, path: str) -> dict[str, Any]:
    """Dotted keys and their values, without those that may differ."""
    if not isinstance(value, dict):
        return {path: value}
    found: dict[str, Any] = {}
    for name, inner in cast("dict[str, Any]", value).items():
        if name not in FREE:
            found |= _leaves(inner, f"{path}.{name}")
    return found
