"""Finding parts of a model by patterns of their paths."""

import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import keras

from configs.errors import ConfigError


def matching(paths: Iterable[str], patterns: Sequence[str], what: str) -> list[str]:
    """The paths that fit any of some patterns.

    Args:
        paths: Such as `encoder_layer_0/self_attention/query/kernel`.
        patterns: As for files: `*` stands for any characters, `/` among them, `?` for
            one, `[01]` for one of these.
        what: What the paths are of, for the error.

    Returns:
        Those that fit, in their order.

    Raises:
        ConfigError: A pattern fits nothing. It names the paths most like it.

    Example:
    >>> matching(["layer_0/kernel", "layer_1/kernel"], ["*_1/*"], "weight")
    ['layer_1/kernel']
    >>> matching(["layer_0/kernel"], ["layer_0/kernle"], "weight")
    Traceback (most recent call last):
    configs.errors.ConfigError: 'layer_0/kernle' fits the path of no weight. ...
    """
    paths = list(paths)
    if isinstance(patterns, str):  # which would be taken letter by letter
        patterns = [patterns]
    for pattern in patterns:
        if not any(fnmatchcase(path, pattern) for path in paths):
            near = difflib.get_close_matches(pattern, paths, n=3, cutoff=0.0)
            hint = f"Most like it: {', '.join(near)}" if near else "There are none"
            raise ConfigError(f"{pattern!r} fits the path of no {what}. {hint}")
    return [p for p in paths if any(fnmatchcase(p, pattern) for pattern in patterns)]


def dense_layers(model: keras.Model) -> dict[str, keras.layers.Dense]:
    """A model's dense layers, at any depth, by path."""
    return {
        layer.path: layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.Dense)
    }


def forget_training(model: keras.Model) -> None:
    """Has the model compiled anew: its optimizer was made for other weights."""
    model.compiled = False
    forget_traces(model)


def forget_traces(model: keras.Model) -> None:
    """Has `fit`, `evaluate` and `predict` trace anew, with the weights as they are."""
    model.train_function = None
    model.test_function = None
    model.predict_function = None
