"""Weights into a built model, and out of it."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from transbeam.configs.base.errors import ArtifactError
from transbeam.model.weights.checkpoints.tensor_transforms import Shape


def variables_of(model: keras.Model) -> dict[str, Any]:
    """A model's weights by their paths, such as `token_embedding/embeddings`.

    Example:
    >>> inputs = keras.Input((2,))
    >>> model = keras.Model(inputs, keras.layers.Dense(3, name="pooler")(inputs))
    >>> list(variables_of(model))
    ['pooler/kernel', 'pooler/bias']
    """
    prefix = f"{model.name}/"
    return {weight.path.removeprefix(prefix): weight for weight in model.weights}


def shapes_of(model: keras.Model) -> dict[str, Shape]:
    """Path and shape of each weight of a model."""
    return {path: tuple(w.shape) for path, w in variables_of(model).items()}


def assign(model: keras.Model, weights: Iterable[tuple[str, np.ndarray]]) -> None:
    """Gives a built model its weights, one at a time.

    Args:
        model: Any model of ours.
        weights: Pairs of path and values, as `Checkpoint.weights` gives.

    Raises:
        ArtifactError: A weight is missing, given twice, unknown, of another shape, or
            holds a number that is not finite.

    Example:
    >>> inputs = keras.Input((2,))
    >>> model = keras.Model(inputs, keras.layers.Dense(1, name="scores")(inputs))
    >>> assign(model, {"scores/kernel": np.ones((2, 1)), "scores/bias": [4]}.items())
    >>> float(model(np.ones((1, 2)))[0, 0])
    6.0
    """
    left = variables_of(model)
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
