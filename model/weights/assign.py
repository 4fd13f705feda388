"""Reads the weights of a built model, and assigns them."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from transbeam.configs.base.errors import ArtifactError
from transbeam.model.weights.checkpoints.tensor_transforms import Shape


def variables_by_path(model: keras.Model) -> dict[str, Any]:
    """Maps paths, such as `token_embedding/embeddings`, to the variables of a model.

    Example:
    >>> inputs = keras.Input((2,))
    >>> model = keras.Model(inputs, keras.layers.Dense(3, name="pooler")(inputs))
    >>> list(variables_by_path(model))
    ['pooler/kernel', 'pooler/bias']
    """
    prefix = f"{model.name}/"
    return {weight.path.removeprefix(prefix): weight for weight in model.weights}


def variable_shapes(model: keras.Model) -> dict[str, Shape]:
    """Shapes of a model's weights, by path."""
    return {path: tuple(w.shape) for path, w in variables_by_path(model).items()}


def assign(model: keras.Model, weights: Iterable[tuple[str, np.ndarray]]) -> None:
    """Assigns all weights of a built model, one at a time.

    Args:
        model: A model of `transbeam.model`.
        weights: Pairs of path and values, such as those of `Checkpoint.weights`.

    Raises:
        ArtifactError: A weight is missing, duplicate, unknown, of another shape, or not
            finite.

    Example:
    >>> inputs = keras.Input((2,))
    >>> model = keras.Model(inputs, keras.layers.Dense(1, name="scores")(inputs))
    >>> assign(model, {"scores/kernel": np.ones((2, 1)), "scores/bias": [4]}.items())
    >>> float(model(np.ones((1, 2)))[0, 0])
    6.0
    """
    left = variables_by_path(model)
    for path, values in weights:
        if path not in left:
            raise ArtifactError(f"{path}: is no weight of the model, or is given twice")
        variable, values = left.pop(path), np.asarray(values)
        if tuple(variable.shape) != values.shape:
            raise ArtifactError(
                f"{path}: has shape {values.shape}, expected {tuple(variable.shape)}"
            )
        if not np.isfinite(values).all():
            raise ArtifactError(
                f"{path}: {(~np.isfinite(values)).sum():,} of {values.size:,} numbers "
                "are not finite: the checkpoint is damaged"
            )
        variable.assign(values)
    if left:
        raise ArtifactError(f"no values are given for {', '.join(left)}")
