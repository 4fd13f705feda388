"""Magnitude pruning: sets the smallest weights to zero, and keeps them there.

A *mask* has the shape of a weight: True for numbers that may be nonzero, False for
those that are pruned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.pruning import KERNELS
from transbeam.model.adaptation.freezing import forget_traces
from transbeam.model.base.weight_paths import select_prunable

Scope = Literal["matrix", "global"]


@dataclass(frozen=True)
class Sparsity:
    """Sparsity: the share of zeros in some weights of a model.

    Attributes:
        by_weight: Share of zeros in each weight, by path.
        total: Share of zeros over all the weights in `by_weight`.
    """

    by_weight: dict[str, float]
    total: float

    def __str__(self) -> str:
        lines = [f"{share:7.2%}  {path}" for path, share in self.by_weight.items()]
        return "\n".join([*lines, f"{self.total:7.2%}  in total"])


class KeepZeros(keras.constraints.Constraint):
    """Sets masked weights to zero, after every optimizer step.

    Args:
        mask: bool, of the weight's shape; True for numbers that may be nonzero.

    Example:
    >>> keep = KeepZeros(np.array([True, False]))
    >>> ops.convert_to_numpy(keep(ops.array([3.0, 4.0])))
    array([3., 0.], dtype=float32)
    """

    def __init__(self, mask: Any):
        self.mask = ops.convert_to_tensor(mask, dtype="bool")

    def __call__(self, w):
        w = ops.convert_to_tensor(w)
        return ops.where(self.mask, w, ops.zeros_like(w))


def prune_weights(
    model: keras.Model,
    sparsity: float,
    *,
    targets: Sequence[str] = KERNELS,
    scope: Scope = "matrix",
) -> Sparsity:
    """Sets the smallest weights to zero and keeps them there in further training.

    The model's size and speed do not change; only a compressed file is smaller. Pruning
    helps to determine how many weights a model needs.

    To prune in steps, call this function again with a higher sparsity: weights that are
    already zero are pruned first.

    Args:
        model: A built model.
        sparsity: in `[0, 1)`. The target share of zeros, rounded to a whole number of
            weights.
        targets: Patterns of the paths of weights.
        scope: `"matrix"` prunes the same share of each weight; `"global"` ranks the
            numbers of all weights together, so that weights with many small numbers
            lose more.

    Returns:
        The share of zeros after pruning.

    Raises:
        ConfigError: A pattern matches no weight, a weight is quantized, or an argument
            is out of range.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> prune_weights(model, 0.5).total
    0.5

    References:
        - [Han et al., 2015](https://arxiv.org/abs/1506.02626), section 3
        - [Zhu & Gupta, 2017](https://arxiv.org/abs/1710.01878), section 3 (in steps)
    """
    weights = _float_weights(model, targets)
    values = {path: ops.convert_to_numpy(w) for path, w in weights.items()}
    masks = magnitude_masks(values, sparsity, scope)
    for path, weight in weights.items():
        weight.assign(np.where(masks[path], values[path], np.zeros_like(values[path])))
    return keep_zeros(model, targets=targets)


def magnitude_masks(
    values: Mapping[str, np.ndarray],
    sparsity: float,
    scope: Scope = "matrix",
    before: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Computes the masks that prune the smallest numbers of some weights.

    Of equally small numbers the first are pruned, so equal weights have equal masks on
    every machine.

    Args:
        values: The weights, by path.
        sparsity: in `[0, 1)`. The share of numbers to prune, rounded to a whole number
            of them.
        scope: As in `prune_weights`.
        before: Earlier masks of the same weights: what they prune stays pruned.

    Returns:
        The masks, by path.

    Raises:
        ConfigError: An argument is out of range.

    Example:
    >>> small, large = np.array([[0.1, -0.4]]), np.array([[3.0, -2.0]])
    >>> magnitude_masks({"a": small, "b": large}, 0.5)["b"]
    array([[ True, False]])
    >>> magnitude_masks({"a": small, "b": large}, 0.5, "global")["b"]
    array([[ True,  True]])
    """
    if not 0 <= sparsity < 1:
        raise ConfigError(f"sparsity={sparsity} is not in [0, 1)")
    magnitudes = {path: np.abs(x).astype("float32") for path, x in values.items()}
    for path, mask in (before or {}).items():
        magnitudes[path][~mask] = -1.0  # below those that happen to be zero
    match scope:
        case "matrix":
            return {path: _largest(x, sparsity) for path, x in magnitudes.items()}
        case "global":
            flat = [x.ravel() for x in magnitudes.values()]
            joined = _largest(np.concatenate(flat), sparsity)
            pieces = np.split(joined, np.cumsum([x.size for x in flat])[:-1])
            return {
                path: piece.reshape(x.shape)
                for (path, x), piece in zip(magnitudes.items(), pieces, strict=True)
            }
        case _:
            raise ConfigError(f"scope={scope!r} is not one of 'matrix', 'global'")


def _largest(magnitudes: np.ndarray, sparsity: float) -> np.ndarray:
    """Marks all but the smallest numbers, of which exactly the given share goes."""
    number = round(sparsity * magnitudes.size)
    if not number:
        return np.ones(magnitudes.shape, "bool")
    # The algorithm of `argpartition` differs by processor, and with it the choice among
    # equal numbers; the value at a rank does not.
    limit = np.partition(magnitudes, number - 1, axis=None)[number - 1]
    kept = magnitudes > limit
    equal = np.flatnonzero(magnitudes == limit)
    kept.flat[equal[number - int(np.sum(magnitudes < limit)) :]] = True
    return kept


def keep_zeros(model: keras.Model, *, targets: Sequence[str] = KERNELS) -> Sparsity:
    """Keeps the current zeros at zero during training.

    The zeros define the mask, so a pruned model loaded from a file needs only a call of
    this function.

    Args:
        model: A built model.
        targets: Patterns of the paths of weights.

    Returns:
        The share of zeros.

    Raises:
        ConfigError: A pattern matches no weight, or a weight is quantized.
    """
    for weight in _float_weights(model, targets).values():
        weight.constraint = KeepZeros(ops.convert_to_numpy(weight) != 0)
    forget_traces(model)
    return measure_sparsity(model, targets=targets)


def measure_sparsity(
    model: keras.Model, *, targets: Sequence[str] = KERNELS
) -> Sparsity:
    """Counts the zeros.

    Args:
        model: A built model.
        targets: Patterns of the paths of weights.

    Raises:
        ConfigError: A pattern matches no weight, or a weight is quantized.

    Example:
    >>> layers = [keras.Input((3,)), keras.layers.Dense(2, name="classifier")]
    >>> print(measure_sparsity(keras.Sequential(layers, name="model")))
      0.00%  model/classifier/kernel
      0.00%  in total
    """
    weights = _float_weights(model, targets)
    return count_zeros({p: ops.convert_to_numpy(w) for p, w in weights.items()})


def count_zeros(values: Mapping[str, np.ndarray]) -> Sparsity:
    """Counts the zeros of some weights.

    Args:
        values: The weights, by path.

    Example:
    >>> print(count_zeros({"a": np.array([0.0, 2.0]), "b": np.ones(2)}))
     50.00%  a
      0.00%  b
     25.00%  in total
    """
    zeros = {path: int(np.sum(x == 0)) for path, x in values.items()}
    return Sparsity(
        by_weight={path: zeros[path] / x.size for path, x in values.items()},
        total=sum(zeros.values()) / sum(x.size for x in values.values()),
    )


def _float_weights(model: keras.Model, targets: Sequence[str]) -> dict[str, Any]:
    weights = {weight.path: weight for weight in model.weights}
    shapes = {path: tuple(weight.shape) for path, weight in weights.items()}
    chosen = {path: weights[path] for path in select_prunable(shapes, targets)}
    for path, weight in chosen.items():
        if "float" not in weight.dtype:
            raise ConfigError(
                f"{path} is quantised ({weight.dtype}); prune first, quantise then"
            )
    return chosen
