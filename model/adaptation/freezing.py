"""Freezes and unfreezes weights, and resets compiled functions after changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import keras

from transbeam.configs.base.errors import ConfigError
from transbeam.model.base.weight_paths import matching


def dense_layers(model: keras.Model) -> dict[str, keras.layers.Dense]:
    """Finds a model's dense layers, at any depth, by path."""
    return {
        layer.path: layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.Dense)
    }


def forget_training(model: keras.Model) -> None:
    """Discards a model's compiled state: its optimizer was built for other weights."""
    model.compiled = False
    forget_traces(model)


def forget_traces(model: keras.Model) -> None:
    """Makes `fit`, `evaluate` and `predict` retrace with the current weights."""
    model.train_function = None
    model.test_function = None
    model.predict_function = None


@dataclass(frozen=True)
class ParameterCount:
    """Numbers of trainable and of frozen parameters in a model."""

    trainable: int
    frozen: int

    @property
    def total(self) -> int:
        """Number of all parameters."""
        return self.trainable + self.frozen

    def __str__(self) -> str:
        share = self.trainable / self.total if self.total else 0.0
        return f"{self.trainable:,} of {self.total:,} parameters trained ({share:.2%})"


def count_parameters(model: keras.Model) -> ParameterCount:
    """Counts a model's trainable and frozen parameters.

    Args:
        model: A built model.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> print(count_parameters(model))
    8 of 8 parameters trained (100.00%)
    """
    sizes = {True: 0, False: 0}
    for weight in model.weights:
        sizes[bool(weight.trainable)] += prod(weight.shape)
    return ParameterCount(trainable=sizes[True], frozen=sizes[False])


def freeze(model: keras.Model, patterns: Sequence[str]) -> ParameterCount:
    """Makes weights non-trainable.

    An optimizer creates its state for the trainable weights, so freeze before
    compiling. A saved model does not record which weights are frozen.

    Args:
        model: A built model.
        patterns: Patterns of weight paths, such as `"token_embedding/*"`,
            `"encoder_layer_[0-5]/*"`, `"*/bias"`; see `matching`.

    Returns:
        Counts of trainable and frozen parameters after the change.

    Raises:
        ConfigError: A pattern matches no weight.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> freeze(model, ["*/kernel"])
    ParameterCount(trainable=2, frozen=6)
    """
    return _set_trainable(model, patterns, False)


def unfreeze(model: keras.Model, patterns: Sequence[str]) -> ParameterCount:
    """Makes weights trainable; the opposite of `freeze`.

    To train a head alone: `freeze(model, ["*"])`, then
    `unfreeze(model, ["classifier/*"])`.

    Args:
        model: A built model.
        patterns: Patterns of weight paths.

    Returns:
        Counts of trainable and frozen parameters after the change.

    Raises:
        ConfigError: A pattern matches no weight, or an integer weight, which has no
            gradient.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> _ = freeze(model, ["*"])
    >>> unfreeze(model, ["*/bias"])
    ParameterCount(trainable=2, frozen=6)
    """
    return _set_trainable(model, patterns, True)


def _set_trainable(
    model: keras.Model, patterns: Sequence[str], trainable: bool
) -> ParameterCount:
    weights = {weight.path: weight for weight in model.weights}
    chosen = [weights[path] for path in matching(weights, patterns, "weight")]
    for weight in chosen:
        if trainable and "float" not in weight.dtype:
            raise ConfigError(
                f"{weight.path} is quantised ({weight.dtype}) and cannot be trained; "
                "leave it out, and train adapters beside it (enable_lora)"
            )
    for weight in chosen:
        weight.trainable = trainable
    forget_training(model)
    return count_parameters(model)
