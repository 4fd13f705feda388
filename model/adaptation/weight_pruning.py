"""Magnitude pruning: sets the smallest weights to zero, and keeps them there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import keras
import numpy as np
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.adaptation.freezing import forget_traces
from transbeam.model.base.weight_paths import matching

KERNELS = ("*/kernel",)


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
    scope: Literal["matrix", "global"] = "matrix",
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
    if not 0 <= sparsity < 1:
        raise ConfigError(f"sparsity={sparsity} is not in [0, 1)")
    weights = _float_weights(model, targets)
    values = {path: ops.convert_to_numpy(w) for path, w in weights.items()}
    magnitudes = {path: _magnitudes(value) for path, value in values.items()}
    match scope:
        case "matrix":
            smallest = {p: _smallest(m, sparsity) for p, m in magnitudes.items()}
        case "global":
            joined = _smallest(np.concatenate(list(magnitudes.values())), sparsity)
            ends = np.cumsum([m.size for m in magnitudes.values()])[:-1]
            pieces = np.split(joined, ends)
            smallest = dict(zip(magnitudes, pieces, strict=True))
        case _:
            raise ConfigError(f"scope={scope!r} is not one of 'matrix', 'global'")
    for path, weight in weights.items():
        zeros = smallest[path].reshape(values[path].shape)
        weight.assign(np.where(zeros, np.zeros_like(values[path]), values[path]))
    return keep_zeros(model, targets=targets)


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
    zeros = {
        path: int(np.sum(ops.convert_to_numpy(weight) == 0))
        for path, weight in weights.items()
    }
    sizes = {path: int(np.prod(weight.shape)) for path, weight in weights.items()}
    return Sparsity(
        by_weight={path: zeros[path] / sizes[path] for path in weights},
        total=sum(zeros.values()) / sum(sizes.values()),
    )


def _float_weights(model: keras.Model, targets: Sequence[str]) -> dict[str, Any]:
    weights = {weight.path: weight for weight in model.weights}
    chosen = {path: weights[path] for path in matching(weights, targets, "weight")}
    for path, weight in chosen.items():
        if "float" not in weight.dtype:
            raise ConfigError(
                f"{path} is quantised ({weight.dtype}); prune first, quantise then"
            )
    return chosen


def _magnitudes(value: np.ndarray) -> np.ndarray:
    return np.abs(value).ravel().astype("float32")


def _smallest(magnitudes: np.ndarray, share: float) -> np.ndarray:
    """Marks the smallest values, exactly the given share of them."""
    chosen = np.zeros(magnitudes.size, "bool")
    number = round(share * magnitudes.size)
    if number:
        chosen[np.argpartition(magnitudes, number - 1)[:number]] = True
    return chosen
