"""Values of a stack's position encoding, from its own layers."""

from dataclasses import replace
from typing import Any

import numpy as np
from keras import ops

from transbeam.configs.schema.block import (
    NoStretchConfig,
    RelativeBiasPositionConfig,
    RopePositionConfig,
)
from transbeam.model.stack.layer_factory import (
    build_position,
    build_rotary,
    build_score_bias,
)
from transbeam.model.stack.stack_spec import StackSpec


def position_vectors(
    spec: StackSpec, length: int, table: np.ndarray | None = None
) -> np.ndarray | None:
    """Computes the vectors that a stack adds to its embeddings.

    Args:
        spec: The stack.
        length: Number of positions.
        table: The weight of learned positions; None for the initial one.

    Returns:
        float32 `(T, D)`: the layer's output for zeros; None for kinds that add nothing
        to the embeddings.
    """
    layer: Any = build_position(replace(spec, dtype="float32"), "position_embedding")
    if layer is None:
        return None
    layer.build((None, None, spec.config.table_dim))
    if table is not None:
        layer.embeddings.assign(table)
    return ops.convert_to_numpy(layer(ops.zeros((1, length, spec.config.table_dim))))[0]


def score_biases(
    spec: StackSpec, length: int, bias_table: np.ndarray | None = None
) -> np.ndarray | None:
    """Computes the biases that a stack adds to its attention scores.

    Args:
        spec: The stack.
        length: Number of positions.
        bias_table: The learned table of relative biases, float32 `(num_buckets, H)`;
            None for the number of each bucket in place of a bias, for one head.

    Returns:
        float32 `(H, T, T)`, by query and key; None for kinds without biases.
    """
    layer = build_score_bias(spec, "score_bias")
    if layer is None:
        return None
    position = spec.config.position
    if isinstance(position, RelativeBiasPositionConfig) and bias_table is None:
        bias_table = np.arange(position.num_buckets, dtype="float32")[:, None]
    places = ops.arange(length)
    table = None if bias_table is None else ops.convert_to_tensor(bias_table)
    return ops.convert_to_numpy(layer(places, places, table))


def rotation_angles(spec: StackSpec, length: int) -> np.ndarray | None:
    """Computes the angles by which a stack rotates queries and keys.

    Args:
        spec: The stack.
        length: Number of positions.

    Returns:
        float32 `(T, K / 2)`, in `(-pi, pi]`, by position and pair of numbers: read from
        the layer's output for pairs (1, 0). None for kinds that do not rotate.
    """
    turned = _rotate(spec, length, second=0.0)
    if turned is None:
        return None
    first, second = np.split(turned, 2, axis=-1)
    return np.arctan2(second, first)


def similarity_by_distance(
    spec: StackSpec, length: int, table: np.ndarray | None = None
) -> np.ndarray | None:
    """Computes the similarity of two positions by their distance.

    Args:
        spec: The stack.
        length: Number of positions.
        table: As in `position_vectors`.

    Returns:
        float32 `(T,)`. For vectors that are added, the cosine of two of them, as a mean
        over all pairs at that distance; for rotations the dot product of two rotated
        vectors of ones, divided by that at distance 0. None for other kinds.
    """
    vectors = position_vectors(spec, length, table)
    if vectors is None:
        vectors = _rotate(spec, length, second=1.0)
    if vectors is None:
        return None
    vectors = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    products = vectors @ vectors.T
    return np.array([np.diagonal(products, by).mean() for by in range(length)])


def without_stretch(spec: StackSpec) -> StackSpec:
    """Returns the stack with RoPE's original frequencies."""
    position = spec.config.position
    if not isinstance(position, RopePositionConfig):
        return spec
    plain = replace(position, stretch=NoStretchConfig())
    return replace(spec, config=replace(spec.config, position=plain))


def _rotate(spec: StackSpec, length: int, second: float) -> np.ndarray | None:
    """Rotates pairs (1, second) at all positions: float32 `(T, K)`."""
    layer = build_rotary(replace(spec, dtype="float32"), "rotary")
    if layer is None:
        return None
    half = spec.config.head_dim(spec.attention) // 2
    pairs = np.repeat([1.0, second], half).astype("float32")
    inputs = np.broadcast_to(pairs, (1, length, 1, 2 * half))
    places = ops.arange(length, dtype="int32")
    return ops.convert_to_numpy(layer(ops.convert_to_tensor(inputs), places))[0, :, 0]
