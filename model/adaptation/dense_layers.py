"""The dense layers of a model, and a model after its weights have changed."""

import keras


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
