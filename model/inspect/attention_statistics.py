"""Statistics of attention heads, in one forward pass and without keeping maps."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import keras
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.head_observation import observe_heads
from transbeam.model.inspect.head_weights import HeadWeights
from transbeam.model.layers.attention.attended_keys import ProjectedKeys
from transbeam.model.layers.attention.cross import CrossAttention

# Offsets from -REACH to REACH have a weight each.
REACH = 8
OFFSETS = tuple(range(-REACH, REACH + 1))
# The smallest normal float32: the logarithm of 0 is never taken.
_TINY = 1.2e-38

Statistics = dict[str, dict[str, Any]]


def attention_statistics(
    model: keras.Model,
    inputs: Mapping[str, Any],
    classes: Mapping[str, Any] | None = None,
    *,
    sparsity_threshold: float = 0.001,
    distant_tokens: int = 16,
    end_class: int | None = None,
) -> Statistics:
    """Computes statistics of every head, as sums over the queries of each text.

    A layer's probabilities are reduced as soon as they are computed, so that those of
    one layer exist at a time. The function may be called eagerly, or traced: it then
    needs one trace for each padded length. Divide sums by their counts for the means of
    a text, and sums over texts by sums of counts for those of all texts.

    Padding is counted neither as query nor as key. Let `a` be the weights of a query's
    `T` visible keys, which sum to 1; a causal model's visible keys are those up to the
    query. Per layer, float32:

    - `queries` `(B,)`: number of queries, the count of all sums without another one.
    - `entropy` `(B, H)`: `-sum a ln a`, in nats (Clark et al., section 3.3, whose code
      smooths the weights; this does not).
    - `entropy_share` `(B, H)`: entropy by `ln T`; its count `queries_with_two_keys`
      `(B,)` leaves out queries with one visible key, which have no share.
    - `confidence` `(B, H)`: the largest weight; `confidence_without_end`: the largest
      weight of keys that are not in `end_class` (Voita et al., section 4).
    - `sparsity` `(B, H)`: share of the visible keys with a weight below the threshold.
    - `distance` `(B, H)`: `sum a |key - query|`, in tokens (Vig & Belinkov, who
      leave out the first token); `distant`: weight of keys further away
      than `distant_tokens`.
    - `offsets` `(B, H, 17)`: weight at each of `OFFSETS`, key minus query: 0 is the
      token itself, -1 the previous and 1 the next. A query without a key at an offset
      counts with weight 0.
    - `first` `(B, H)`: weight of the text's first token.
    - `classes` `(B, H, C)`: weight of the keys in each class.
    - `end_to_end` `(B, H)`: weight from queries to keys in `end_class`, with its count
      `end_queries` `(B,)`.

    Cross-attention has no `distance`, `distant`, `offsets` and `end_to_end`, as keys
    and queries are of two texts. Low-rank attention attends to projections of the text
    instead of tokens: it has the counts, entropies and `confidence` only. Kernel
    attention has no probabilities, and no entry. Images have no `first`.

    Shapes: `B` texts, `H` heads, `C` classes.

    Args:
        model: A model of `transbeam.model`, for rows of one text each.
        inputs: The model's inputs by name.
        classes: Membership of tokens in classes, 0 or 1, `(B, T, C)` for each stack:
            `encoder`, `decoder`. A token may be in several classes or none.
        sparsity_threshold: Weights below are counted by `sparsity`. It should be below
            the weights of uniform attention, one by the number of keys.
        distant_tokens: The largest distance that is not distant.
        end_class: Index of the class of end tokens, such as `[SEP]`; None for no
            statistics of them.

    Returns:
        The statistics of each layer by the layer's path, such as
        `encoder_layer_0/self_attention`.

    Raises:
        ConfigError: An option is out of range, the model is for packed rows, or has no
            attention probabilities.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> encoder = build_encoder(EncoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> ones = ops.ones((1, 3), dtype="int32")
    >>> inputs = {"token_ids": ones, "padding_mask": ones}
    >>> found = attention_statistics(encoder, inputs)["encoder_layer_0/self_attention"]
    >>> tuple(found["entropy"].shape), float(found["queries"][0])
    ((1, 4), 3.0)

    References:
        - [Clark et al., 2019](https://arxiv.org/abs/1906.04341), section 3
        - [Voita et al., 2019](https://arxiv.org/abs/1905.09418), section 4
        - [Vig & Belinkov, 2019](https://arxiv.org/abs/1906.04284)
    """
    options = (sparsity_threshold, distant_tokens, end_class)
    with recorded_statistics(model, inputs, classes, *options) as statistics:
        model(inputs, training=False)
    return statistics


@contextmanager
def recorded_statistics(
    model: keras.Model,
    inputs: Mapping[str, Any],
    classes: Mapping[str, Any] | None = None,
    sparsity_threshold: float = 0.001,
    distant_tokens: int = 16,
    end_class: int | None = None,
) -> Iterator[Statistics]:
    """Records the statistics of a call of the model inside of the context.

    Args:
        model: See `attention_statistics`; call it once.
        inputs: The inputs of that call.
        classes: See `attention_statistics`.
        sparsity_threshold: See `attention_statistics`.
        distant_tokens: See `attention_statistics`.
        end_class: See `attention_statistics`.
    """
    check_options(sparsity_threshold, distant_tokens)
    members = _memberships(inputs, classes or {})
    statistics: Statistics = {}

    def observe(layer, keys, weights):
        crosses = isinstance(layer, CrossAttention)
        side = "encoder" if crosses else layer.path.partition("_")[0]
        projected = isinstance(keys, ProjectedKeys)
        by_key = None if projected else members.get(side)
        options = (sparsity_threshold, end_class)
        found = _reduce_keys(weights, by_key, crosses, *options)
        if projected:
            del found["sparsity"]
        elif not crosses:
            sums = weights.sum_by_offset(REACH, distant_tokens)
            found |= {"distance": sums[..., 0], "distant": sums[..., 1]}
            found["offsets"] = sums[..., 2:]
        # Some kinds of attention compute the weights of some queries apart.
        before = statistics.get(layer.path)
        if before is not None:
            found = {name: before[name] + value for name, value in found.items()}
        statistics[layer.path] = found

    with observe_heads(model, observe):
        yield statistics


def check_options(sparsity_threshold: float, distant_tokens: int) -> None:
    """Checks options of statistics.

    Raises:
        ConfigError: An option is out of range.
    """
    if not 0 < sparsity_threshold < 1:
        raise ConfigError(
            f"sparsity_threshold={sparsity_threshold}: expected a weight between 0 and "
            "1, both excluded, such as 0.001"
        )
    if distant_tokens < 1:
        raise ConfigError(
            f"distant_tokens={distant_tokens}: expected at least 1 token, such as 16"
        )


def _memberships(
    inputs: Mapping[str, Any], classes: Mapping[str, Any]
) -> dict[str, Any]:
    """Joins the classes of each stack's tokens behind a class of the first token.

    Returns:
        float32 `(B, T, 1 + C)` by stack, zeros for padding.
    """
    members = {}
    for side in ("encoder", "decoder"):
        mask = inputs.get(f"{side}_padding_mask", inputs.get("padding_mask"))
        if mask is None:
            continue
        real = ops.not_equal(mask, 0)
        count = ops.cumsum(ops.cast(real, "int32"), axis=1)
        first = ops.logical_and(real, ops.equal(count, 1))
        columns = [ops.cast(ops.expand_dims(first, 2), "float32")]
        if side in classes:
            given = ops.cast(classes[side], "float32")
            columns.append(given * ops.cast(ops.expand_dims(real, 2), "float32"))
        members[side] = ops.concatenate(columns, axis=2)
    return members


def _reduce_keys(
    weights: HeadWeights,
    by_key: Any,
    crosses: bool,
    threshold: float,
    end_class: int | None,
) -> dict[str, Any]:
    """Computes the statistics of one layer that need no positions.

    Args:
        weights: The weights.
        by_key: The keys' first token and classes, `(B, S, 1 + C)`, or None.
        crosses: True if the keys are of another text than the queries.
        threshold: See `attention_statistics`.
        end_class: See `attention_statistics`.
    """
    values = weights.values
    entropy = -ops.sum(values * ops.log(ops.maximum(values, _TINY)), axis=-1)
    above = ops.sum(ops.cast(values >= threshold, "float32"), axis=-1)
    visible = ops.sum(weights.visible, axis=-1) + ops.zeros_like(entropy)
    columns = [ops.stack([entropy, above, visible], axis=-1)]
    largest = [ops.max(values, axis=-1)]
    # The column of the end tokens, if there are such.
    end = None if by_key is None or end_class is None else 1 + end_class
    if by_key is not None:
        members = weights.at_keys(by_key)  # (..., S, 1 + C)
        columns.append(ops.matmul(values, members))
        if end is not None:
            others = 1 - ops.expand_dims(members[..., end], -2)
            largest.append(ops.max(values * others, axis=-1))

    # Of each query of the text: (B, H, T, F).
    by_query = weights.sum_by_query(ops.concatenate(columns, axis=-1))
    largest = weights.max_by_query(ops.stack(largest, axis=-1))
    entropy, above, visible = (by_query[..., column] for column in range(3))
    counted = ops.cast(visible > 0, "float32")
    two = ops.cast(visible > 1, "float32")
    share = two * entropy / ops.log(ops.maximum(visible, 2.0))
    below = (visible - above) / ops.maximum(visible, 1.0)
    found = {
        "queries": ops.sum(counted[:, 0], axis=1),
        "queries_with_two_keys": ops.sum(two[:, 0], axis=1),
        "entropy": ops.sum(entropy, axis=2),
        "entropy_share": ops.sum(share, axis=2),
        "confidence": ops.sum(largest[..., 0], axis=2),
        "sparsity": ops.sum(below, axis=2),
    }
    if by_key is not None:
        shares = by_query[..., 3:]
        found["first"] = ops.sum(shares[..., 0], axis=2)
        found["classes"] = ops.sum(shares[..., 1:], axis=2)
        if end is not None:
            found["confidence_without_end"] = ops.sum(largest[..., 1], axis=2)
        if end is not None and not crosses:
            ends = by_key[..., end]  # (B, T)
            found["end_queries"] = ops.sum(ends * counted[:, 0], axis=1)
            to_end = shares[..., end] * ops.expand_dims(ends, 1)
            found["end_to_end"] = ops.sum(to_end, axis=2)
    return found
