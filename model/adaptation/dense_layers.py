"""Lists a model's dense layers, and resets compiled functions after weight changes."""

import keras


def dense_layers(model: keras.Model) -> dict[str, keras.layers.Dense]:
    """A model's dense layers, at any depth, by path."""
    return {
        layer.path: layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.Dense)
    }


def forget_training(model: keras.Model) -> None:
    """Discards a model's compilation, as its optimizer was built for other weights."""
    model.compiled = False
    forget_traces(model)


def forget_traces(model: keras.Model) -> None:
    """Makes `fit`, `evaluate` and `predict` trace again, with the current weights."""
    model.train_function = None
    model.test_function = None
    model.predict_function = None
