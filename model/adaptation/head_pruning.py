"""Removes attention heads, with their weights."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.attention.block_sparse import BlockSparseAttention
from transbeam.model.layers.base_layer import ConfiguredLayer

# The axis of each weight along which heads are concatenated: query or key heads.
QUERY_AXES = {"output/kernel": 0}
KEY_AXES = {}
for prefix in ("", "global_"):  # global tokens have separate projections
    QUERY_AXES |= {f"{prefix}query/kernel": 1, f"{prefix}query/bias": 0}
    for name in ("key", "value"):
        KEY_AXES |= {f"{prefix}{name}/kernel": 1, f"{prefix}{name}/bias": 0}


@keras.saving.register_keras_serializable(package="transbeam")
class SomeHeads(ConfiguredLayer):
    """A score bias layer restricted to the heads that remain after pruning.

    A remaining head keeps its ALiBi slope or its column of the bias table, though its
    index changes.

    Args:
        score_bias: A layer that is called with query and key positions and returns
            `(..., H, Q, S)`.
        heads: The indices of the remaining heads in the layer's `H` heads.

    Returns:
        `(..., len(heads), Q, S)`.

    Example:
    >>> from transbeam.model.layers.positions.alibi import LinearBias
    >>> positions = ops.arange(3)
    >>> bias = LinearBias(4)
    >>> last = SomeHeads(bias, heads=[3])(positions, positions)
    >>> bool(ops.all(last == bias(positions, positions)[3:]))
    True
    """

    def __init__(self, score_bias: keras.layers.Layer, heads: list[int], **kwargs):
        super().__init__(**kwargs)
        self.score_bias = score_bias
        self.heads = list(heads)

    def call(self, query_positions, key_positions, *tables):
        bias = self.score_bias(query_positions, key_positions, *tables)
        return ops.take(bias, self.heads, axis=-3)


@dataclass(frozen=True)
class _Kept:
    """An attention layer with the indices of its heads that remain after pruning."""

    layer: Attention
    heads: list[int]
    key_heads: list[int]


def prune_heads(
    model: keras.Model, heads: Mapping[str, Collection[int]]
) -> keras.Model:
    """Builds a model without some of its attention heads, at a lower cost.

    The new model's outputs equal those of the given model with the removed heads'
    inputs to the output projection set to zero. Layers may have different numbers of
    heads, which a `model` section of a run cannot express: such a model is saved and
    loaded as a whole (`.keras`).

    Groups of query heads that share keys and values must stay equally large: remove the
    same number from each, or whole groups.

    Args:
        model: A model of `build_encoder`, `build_decoder`, `build_seq2seq` or
            `build_model`; it is not changed.
        heads: Indices (from 0) of the heads to remove, by the path of their attention
            layer, such as `{"encoder_layer_0/self_attention": [1, 3]}`.

    Returns:
        A new model with the remaining weights.

    Raises:
        ConfigError: The model has no such attention layer or head, a layer would keep
            no head, its groups of query heads would differ in size, or a layer has
            adapters, is quantized or is block sparse.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> encoder = build_encoder(EncoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> pruned = prune_heads(encoder, {"encoder_layer_0/self_attention": [0, 2]})
    >>> pruned.get_layer("encoder_layer_0").self_attention.num_heads
    2

    References:
        - [Michel et al., 2019](https://arxiv.org/abs/1905.10650), equation 1
        - [Ainslie et al., 2023](https://arxiv.org/abs/2305.13245) (groups)
    """
    layers = attention_layers(model)
    kept = {path: _keep(path, layers, gone) for path, gone in heads.items()}
    config = model.get_config()
    for path, left in kept.items():
        _shrink(_attention_config(config, path), left)
    pruned = type(model).from_config(config)
    _hand_over(model, pruned, kept)
    return pruned


def attention_layers(model: keras.Model) -> dict[str, Attention]:
    """A model's attention layers by path, such as `encoder_layer_0/self_attention`."""
    return {
        layer.path: layer
        for layer in model._flatten_layers()
        if isinstance(layer, Attention)
    }


def _keep(path: str, layers: dict[str, Attention], gone: Collection[int]) -> _Kept:
    if path not in layers:
        raise ConfigError(
            f"{path!r} is no attention of this model, which has {', '.join(layers)}"
        )
    layer, gone = layers[path], set(gone)
    if isinstance(layer, BlockSparseAttention):
        raise ConfigError(
            f"{path}: each head looks at blocks drawn for its number, which the heads "
            "after one that goes would change"
        )
    if unknown := sorted(gone - set(range(layer.num_heads))):
        raise ConfigError(
            f"{path}: no head {unknown[0]}; it has {layer.num_heads}, from 0"
        )
    if len(gone) == layer.num_heads:
        raise ConfigError(
            f"{path}: all of its {layer.num_heads} heads would go; leave one at least"
        )
    for part in layer._flatten_layers():
        if part.quantization_mode is not None:
            raise ConfigError(f"{part.path} is quantised; prune first, quantise then")
        if getattr(part, "lora_enabled", False):
            raise ConfigError(f"{part.path} has an adapter; merge it first")
    heads = [head for head in range(layer.num_heads) if head not in gone]
    return _Kept(layer, heads, _keep_key_heads(path, layer, heads))


def _keep_key_heads(path: str, layer: Attention, heads: list[int]) -> list[int]:
    """Returns the indices of the key-value heads that the remaining query heads use."""
    shared = layer.num_heads // layer.num_key_value_heads
    readers = {group: 0 for group in range(layer.num_key_value_heads)}
    for head in heads:
        readers[head // shared] += 1
    left = {group: number for group, number in readers.items() if number}
    if len(set(left.values())) > 1:
        sizes = ", ".join(
            f"{number} of group {group}" for group, number in left.items()
        )
        raise ConfigError(
            f"{path}: groups of {shared} heads share keys and values and must stay "
            f"equally large; left are {sizes}. Take the same number from each, or "
            "whole groups"
        )
    return list(left)


def _attention_config(config: dict[str, Any], path: str) -> dict[str, Any]:
    """Finds the config of an attention layer within its model's config."""
    block, _, part = path.rpartition("/")
    for layer in config["layers"]:
        if layer["name"] == block and part in layer["config"]:
            return layer["config"][part]["config"]
    raise ConfigError(
        f"{path}: is not directly in a block of this model; give the model that "
        "build_encoder, build_decoder, build_seq2seq or build_model made"
    )


def _shrink(config: dict[str, Any], left: _Kept) -> None:
    config["num_heads"] = len(left.heads)
    config["num_key_value_heads"] = len(left.key_heads)
    if left.layer.score_bias is not None:
        some = SomeHeads(left.layer.score_bias, left.heads, dtype="float32")
        config["score_bias"] = keras.saving.serialize_keras_object(some)


def _hand_over(
    model: keras.Model, pruned: keras.Model, kept: Mapping[str, _Kept]
) -> None:
    """Copies the remaining weights to the new model."""
    values = {weight.path: ops.convert_to_numpy(weight) for weight in model.weights}
    for path, left in kept.items():
        rules = ((QUERY_AXES, left.heads), (KEY_AXES, left.key_heads))
        for axes, heads in rules:
            for name, axis in axes.items():
                full = f"{path}/{name}"
                if full in values:
                    width = left.layer.head_dim
                    values[full] = take_parts(values[full], heads, axis, width)
    for weight in pruned.weights:
        value = values[weight.path]
        if value.shape != tuple(weight.shape):
            raise ConfigError(
                f"{weight.path} has shape {value.shape} and would have "
                f"{tuple(weight.shape)}: heads of this kind of attention cannot be "
                "taken away"
            )
        weight.assign(value)


def take_parts(
    value: np.ndarray, parts: Sequence[int], axis: int, width: int = 1
) -> np.ndarray:
    """Selects slices of a weight along one axis, such as the rows of some heads.

    Args:
        value: The weight.
        parts: Indices of the slices, in the order of the result.
        axis: The axis along which the slices are concatenated.
        width: Width of one slice; `head_dim` if a slice is a head.

    Example:
    >>> take_parts(np.array([1, 2, 3, 4, 5, 6]), [0, 2], axis=0, width=2)
    array([1, 2, 5, 6])
    """
    shape = value.shape
    split = value.reshape(*shape[:axis], -1, width, *shape[axis + 1 :])
    taken = np.take(split, parts, axis=axis)
    return taken.reshape(*shape[:axis], len(parts) * width, *shape[axis + 1 :])
