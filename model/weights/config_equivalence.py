"""Compares the computations of two models by their configs."""

import dataclasses
from typing import Any

from transbeam.configs.schema.block import DropPathResidualConfig, PlainResidualConfig
from transbeam.configs.schema.model import Model, PoolerConfig, Seq2SeqModelConfig

# Keys that affect only training, or do not affect outputs.
_WITHOUT_MEANING = ("initializer", "dropout", "vocabulary_multiple")


def differences(wanted: Model, got: Model) -> list[str]:
    """Lists differences between the computations of two models at inference.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> differences(EncoderConfig(num_layers=2), EncoderConfig(num_layers=3, dropout=0))
    ['num_layers is 2, not 3']
    """
    these, those = _meaning(wanted), _meaning(got)
    return [
        f"{key} is {these.get(key)!r}, not {those.get(key)!r}"
        for key in dict.fromkeys([*these, *those])
        if these.get(key) != those.get(key)
    ]


def _meaning(config: Model) -> dict[str, Any]:
    """The keys that affect a model's outputs, with defaults filled in."""
    flat: dict[str, Any] = {}
    for key in dataclasses.fields(config):
        value = getattr(config, key.name)
        if key.name.endswith("attention") and value is not None:
            value = dataclasses.replace(
                value,
                num_key_value_heads=value.key_value_heads,
                head_dim=config.head_dim(value),
            )
        if value in (PoolerConfig(), PoolerConfig(kind="last")):
            value = None  # the default of a classifier: of an encoder, or of a decoder
        if isinstance(value, DropPathResidualConfig):
            value = PlainResidualConfig()
        flat |= _flat(key.name, value)
    flat["embeddings_norm"] = config.has_embeddings_norm
    if isinstance(config, Seq2SeqModelConfig):
        flat["num_decoder_layers"] = config.decoder_layers
    return flat


def _flat(name: str, value: Any) -> dict[str, Any]:
    if name.rpartition(".")[2] in _WITHOUT_MEANING:
        return {}
    if not dataclasses.is_dataclass(value):
        return {name: value}
    inner = (
        (part.name, getattr(value, part.name)) for part in dataclasses.fields(value)
    )
    return {
        key: one
        for part, below in inner
        for key, one in _flat(f"{name}.{part}", below).items()
    }
