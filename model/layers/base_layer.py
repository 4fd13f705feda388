"""Base classes of the layers: their configuration, output shape and masking."""

import inspect

import keras

from transbeam.model.base.initializers import seeded
from transbeam.model.layers.dense import policy_config


def add_embeddings(
    layer: keras.layers.Layer, num_vectors: int, width: int, *names: str, **kwargs
) -> keras.Variable:
    """Adds a table of learned vectors to a layer: the weight `embeddings`.

    Args:
        layer: A layer with the attributes `embeddings_initializer` and `seed`.
        num_vectors: Number of rows of the table.
        width: Number of columns.
        names: Names from which the seed of the initial values is derived.
        kwargs: Further arguments of `add_weight`.

    Returns:
        The weight, `(num_vectors, width)`.
    """
    return layer.add_weight(
        name="embeddings",
        shape=(num_vectors, width),
        initializer=seeded(layer.embeddings_initializer, layer.seed, *names),
        **kwargs,
    )


class ConfiguredLayer(keras.layers.Layer):
    """A layer whose Keras config consists of the arguments of its constructor.

    Every named argument of the constructor, including those of base-class constructors,
    is an attribute of the same name. `build` takes the shape of the first input alone.
    """

    def get_config(self):
        config = {**super().get_config(), "dtype": policy_config(self)}
        for cls in reversed(type(self).__mro__):
            if issubclass(cls, ConfiguredLayer) and "__init__" in vars(cls):
                _, *arguments = inspect.signature(cls.__init__).parameters.values()
                config |= {
                    argument.name: keras.saving.serialize_keras_object(
                        getattr(self, argument.name)
                    )
                    for argument in arguments
                    if argument.kind is not argument.VAR_KEYWORD
                }
        return config

    @classmethod
    def from_config(cls, config):
        objects = {
            name: keras.saving.deserialize_keras_object(value)
            for name, value in config.items()
            if name != "dtype" and isinstance(value, dict)
        }
        return super().from_config({**config, **objects})

    def build_from_config(self, config):
        # Models saved by version 0.1.0 have the shapes of all inputs, by name.
        self.build(next(iter(config.get("shapes_dict", config).values())))


class SameShapeLayer(ConfiguredLayer):
    """A layer whose output has the shape of its first input."""

    def compute_output_shape(self, inputs_shape):
        return inputs_shape


class TokenwiseLayer(SameShapeLayer):
    """A layer that preserves its input's shape and passes through the Keras mask."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
