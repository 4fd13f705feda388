"""Structured pruning of heads and feed-forward units by first-order importance.

The output of a head or a unit is multiplied with rows of a kernel: `head_dim` rows of
the attention's output projection for a head, one row of the second feed-forward kernel
for a unit. A gate g on the inputs of these rows, y = g x W, has at g = 1 the gradient

    ∂L/∂g = Σ W · ∂L/∂W        over these rows

because y depends on x and W through their product only. So gradients from training
suffice to estimate, to first order, the loss without the head or unit; the model is not
modified.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from transbeam.configs.schema.block import (
    NoFeedForwardConfig,
    RelativeBiasPositionConfig,
)
from transbeam.configs.schema.model import Model
from transbeam.model.adaptation.head_pruning import KEY_AXES, QUERY_AXES, take_parts
from transbeam.model.adaptation.pruned_config import find_attention_config

OUTPUT = "output/kernel"
# The axis of each feed-forward weight along which the intermediate units are.
UNIT_AXES = {OUTPUT: 0}
for name in ("intermediate", "gate"):
    UNIT_AXES |= {f"{name}/kernel": 1, f"{name}/bias": 0}
# The relative position bias of a stack, and the axis of its heads.
_TABLE, _TABLE_AXIS = "relative_bias/embeddings", 1


def importances(kernel: Any, gradient: Any, width: int = 1) -> Any:
    """Estimates, to first order, the change in loss when kernel rows are removed.

    Args:
        kernel: float `(N * width, D)`, with `width` rows for each head or unit.
        gradient: The loss's gradient with respect to the kernel.
        width: Number of rows per head or unit: `head_dim` for a head, 1 for a unit.

    Returns:
        float32 `(N,)`, non-negative.

    Example:
    >>> kernel = np.array([[1.0, 2.0], [3.0, 0.0]])
    >>> gradient = np.array([[1.0, -1.0], [2.0, 5.0]])
    >>> ops.convert_to_numpy(importances(kernel, gradient))
    array([1., 6.], dtype=float32)

    References:
        - [Michel et al., 2019](https://arxiv.org/abs/1905.10650), equation 2 (heads)
        - [Molchanov et al., 2017](https://arxiv.org/abs/1611.06440), section 2.2
    """
    kernel, gradient = ops.cast(kernel, "float32"), ops.cast(gradient, "float32")
    by_row = ops.sum(kernel * gradient, axis=1)
    return ops.abs(ops.sum(ops.reshape(by_row, (-1, width)), axis=1))


def part_widths(weights: Mapping[str, Any], model: Model) -> dict[str, int]:
    """Finds the sub-layers from which heads or units can be removed.

    Args:
        weights: Weights by path.
        model: The `model` section of a run.

    Returns:
        The number of output kernel rows per head or unit, by the path of the sub-layer,
        such as `encoder_layer_0/feedforward`.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> weights = {"encoder_layer_0/self_attention/output/kernel": np.ones((64, 64))}
    >>> part_widths(weights, EncoderConfig(hidden_dim=64))
    {'encoder_layer_0/self_attention': 16}
    """
    found = {}
    for path in weights:
        part = path.removesuffix(f"/{OUTPUT}")
        if part == path:
            continue
        if part.endswith("_attention"):
            found[part] = model.head_dim(find_attention_config(model, part))
        elif part.endswith("/feedforward"):
            found[part] = 1
    return found


def select_most_important(
    importance: Mapping[str, np.ndarray], old: Model, new: Model
) -> dict[str, list[int]]:
    """Selects the most important heads and units of each sub-layer.

    All sub-layers keep the same number of heads or units, because a configuration has a
    single value for all blocks. Importances are compared only within a sub-layer, so
    the normalization between blocks in both of the referenced papers is not needed.

    If one bias table serves all self-attentions of a stack (T5), the same heads are
    kept in all of them, by their summed importance.

    Args:
        importance: Importances by sub-layer, `(H,)` or `(I,)`; see `importances`.
        old: The `model` section of the run.
        new: The section with fewer heads or units; see `pruned_config`.

    Returns:
        The sorted indices of the heads or units to keep, for each sub-layer that
        shrinks.

    Example:
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> from transbeam.model.adaptation.pruned_config import pruned_config
    >>> old = DecoderConfig()
    >>> scores = {"decoder_layer_0/self_attention": np.array([3.0, 1.0, 2.0, 4.0])}
    >>> select_most_important(scores, old, pruned_config(old, heads=2))
    {'decoder_layer_0/self_attention': [0, 3]}
    """
    if isinstance(old.position, RelativeBiasPositionConfig):
        importance = _added_up_by_stack(importance)
    kept = {}
    for part, scores in importance.items():
        number, groups = _widths(part, old, new)
        if number < len(scores):
            kept[part] = _best(scores, number, groups)
    return kept


def _widths(part: str, old: Model, new: Model) -> tuple[int, int]:
    """Returns how many heads or units a sub-layer keeps, and of how many groups."""
    if _is_feedforward(part):
        assert not isinstance(new.feedforward, NoFeedForwardConfig)
        return new.feedforward.intermediate_dim, 1
    attention = find_attention_config(new, part)
    own = _has_own_keys(old, part)
    return attention.num_heads, 1 if own else attention.key_value_heads


def slice_weights(
    weights: Mapping[str, np.ndarray], kept: Mapping[str, Sequence[int]], model: Model
) -> Iterator[tuple[str, np.ndarray]]:
    """Slices the weights of pruned sub-layers; other weights are returned unchanged.

    Args:
        weights: Weights by path.
        kept: The result of `select_most_important`: the indices to keep, by sub-layer.
        model: The `model` section of the run in which the weights were trained.

    Returns:
        Pairs of a weight's path and the weight's values.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> weights = {"encoder_layer_0/feedforward/gate/bias": np.array([1.0, 2.0, 3.0])}
    >>> kept = {"encoder_layer_0/feedforward": [0, 2]}
    >>> ((_, bias),) = slice_weights(weights, kept, EncoderConfig())
    >>> bias
    array([1., 3.])
    """
    for path, values in weights.items():
        if path.endswith(_TABLE):
            stack = path.removesuffix(_TABLE)
            first = next((p for p in kept if _is_of_table(p, stack)), None)
            if first is not None:
                values = take_parts(values, kept[first], _TABLE_AXIS)
        for part in kept:
            if path.startswith(f"{part}/"):
                name = path.removeprefix(f"{part}/")
                values = _of_part(values, name, part, kept[part], model)
        yield path, values


def _of_part(
    values: np.ndarray, name: str, part: str, kept: Sequence[int], model: Model
) -> np.ndarray:
    """Slices a weight of a sub-layer that shrinks."""
    if _is_feedforward(part):
        axes, width = UNIT_AXES, 1
    else:
        width = model.head_dim(find_attention_config(model, part))
        axes = QUERY_AXES | (KEY_AXES if _has_own_keys(model, part) else {})
    return take_parts(values, kept, axes[name], width) if name in axes else values


def _best(scores: np.ndarray, number: int, groups: int) -> list[int]:
    """Indices of the largest scores, equally many per group; ties go to the first."""
    by_group = scores.reshape(groups, -1)
    order = np.argsort(-by_group, axis=1, kind="stable")[:, : number // groups]
    begins = np.arange(groups)[:, np.newaxis] * by_group.shape[1]
    return np.sort(begins + order, axis=None).tolist()


def _added_up_by_stack(scores: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    summed = dict(scores)
    for part in scores:
        stack = part.partition("layer_")[0]
        if _is_of_table(part, stack):
            of_stack = [scores[other] for other in scores if _is_of_table(other, stack)]
            summed[part] = np.sum(of_stack, axis=0)
    return summed


def _is_of_table(part: str, stack: str) -> bool:
    """Checks by its path if a sub-layer is a self-attention of the given stack."""
    return part.startswith(stack) and part.endswith("/self_attention")


def _is_feedforward(part: str) -> bool:
    return part.endswith("/feedforward")


def _has_own_keys(model: Model, part: str) -> bool:
    """Checks if each query head has its own keys and values."""
    attention = find_attention_config(model, part)
    return attention.key_value_heads == attention.num_heads
