"""Detectors of heads that attend by repetition: induction heads and their relatives."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.head_observation import observe_heads
from transbeam.model.layers.attention.attended_keys import ProjectedKeys

DETECTORS = ("previous_token", "duplicate_token", "induction")


def detector_patterns(token_ids: Any, real: Any) -> Any:
    """Marks the pairs of tokens that each of `DETECTORS` looks for.

    The previous token; earlier equal tokens; and the tokens after earlier equal tokens,
    which an induction head copies because they followed the last time.

    Args:
        token_ids: int32 `(B, T)`.
        real: bool `(B, T)`, false for padding.

    Returns:
        float32 `(B, 3, T, T)`: 1 for the pairs of a query and a key.

    Example:
    >>> ids = np.array([[4, 5, 4, 5]])
    >>> patterns = ops.convert_to_numpy(detector_patterns(ids, ids > 0))
    >>> patterns[0, 2].astype(int)
    array([[0, 0, 0, 0],
           [0, 0, 0, 0],
           [0, 1, 0, 0],
           [0, 0, 1, 0]])

    References:
        - [Olsson et al., 2022](https://arxiv.org/abs/2209.11895), appendix
    """
    real = ops.cast(real, "bool")
    index = ops.arange(ops.shape(token_ids)[1], dtype="int32")
    ahead = index - ops.expand_dims(index, 1)  # (T, T), key minus query
    pairs = ops.logical_and(ops.expand_dims(real, 2), ops.expand_dims(real, 1))
    equal = ops.equal(ops.expand_dims(token_ids, 2), ops.expand_dims(token_ids, 1))
    duplicate = ops.logical_and(ops.logical_and(equal, pairs), ahead < 0)
    previous = ops.logical_and(pairs, ops.equal(ahead, -1))
    # One key to the right: the token after the duplicate.
    induction = ops.pad(duplicate[:, :, :-1], [(0, 0), (0, 0), (1, 0)])
    patterns = ops.stack([previous, duplicate, induction], axis=1)
    return ops.cast(patterns, "float32")


def detect_heads(
    model: keras.Model, inputs: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Computes each head's weight on the pairs of `DETECTORS`, in one forward pass.

    The score of a head is its mean weight on a detector's keys over the queries that
    have such a key. On random tokens that are repeated, as `repeat_random_tokens` makes
    them, the score of `induction` is the prefix matching score of Olsson et al.: on
    other texts a head may attend to these keys for another reason.

    Args:
        model: An encoder or decoder of `transbeam.model`, for rows of one text each.
        inputs: The model's inputs by name, `token_ids` among them.

    Returns:
        By the layer's path `weights`, float32 `(B, H, 3)`: sums over queries, and their
        counts `queries`, float32 `(B, 3)`.

    Raises:
        ConfigError: The model has no input `token_ids`, is for packed rows, or has no
            attention probabilities.

    Example:
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> from transbeam.model.decoder import build_decoder
    >>> decoder = build_decoder(DecoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> ids = ops.array([[4, 5, 4, 5]], dtype="int32")
    >>> inputs = {"token_ids": ids, "padding_mask": ops.ones_like(ids)}
    >>> found = detect_heads(decoder, inputs)["decoder_layer_0/self_attention"]
    >>> ops.convert_to_numpy(found["queries"])
    array([[3., 2., 2.]], dtype=float32)

    References:
        - [Olsson et al., 2022](https://arxiv.org/abs/2209.11895), appendix
        - [Elhage et al., 2021](https://transformer-circuits.pub/2021/framework)
    """
    if "token_ids" not in inputs:
        raise ConfigError(
            f"model {model.name}: found the inputs {', '.join(sorted(inputs))}; "
            "detectors of heads need token_ids, of an encoder or a decoder alone"
        )
    patterns = detector_patterns(
        inputs["token_ids"], ops.not_equal(inputs["padding_mask"], 0)
    )
    has_key = ops.any(patterns > 0, axis=3)  # (B, 3, T)
    queries = ops.sum(ops.cast(has_key, "float32"), axis=2)
    found: dict[str, dict[str, Any]] = {}

    def observe(layer, keys, weights):
        if isinstance(keys, ProjectedKeys):
            return
        sums = weights.sum_by_pattern(patterns)
        if layer.path in found:
            sums = sums + found[layer.path]["weights"]
        found[layer.path] = {"weights": sums, "queries": queries}

    with observe_heads(model, observe):
        model(inputs, training=False)
    return found


def repeat_random_tokens(
    token_ids: np.ndarray,
    *,
    texts: int,
    seed: int,
    length: int = 25,
    copies: int = 4,
) -> np.ndarray:
    """Draws random tokens and repeats them, as Olsson et al. do.

    Args:
        token_ids: int `(V,)`, the tokens to draw from.
        texts: Number of texts, `B`.
        seed: Seed of the draw.
        length: Number of tokens that are repeated, all different.
        copies: Number of times that they are in the text.

    Returns:
        int32 `(B, copies * length)`.

    Raises:
        ConfigError: There are fewer tokens than `length`.

    Example:
    >>> repeat_random_tokens(np.arange(5, 9), texts=1, seed=0, length=3, copies=2)
    array([[7, 8, 6, 7, 8, 6]], dtype=int32)
    """
    if len(token_ids) < length:
        raise ConfigError(
            f"vocabulary: found {len(token_ids)} ordinary tokens, expected at least "
            f"{length} to draw from without a repetition"
        )
    generator = np.random.default_rng(seed)
    drawn = [generator.choice(token_ids, length, replace=False) for _ in range(texts)]
    return np.tile(np.array(drawn, "int32").reshape(texts, length), copies)
