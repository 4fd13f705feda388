"""The configuration of layers, and the shapes with which saved ones are built."""

import keras
import pytest

from transbeam.model.layers.positions.learned import LearnedPositionEmbedding
from transbeam.model.layers.residual import DropPathResidual


def test_the_configuration_has_the_arguments_of_all_constructors():
    config = DropPathResidual(0.5, dropout=0.1, seed=3, name="residual").get_config()
    assert config["rate"] == 0.5
    assert (config["dropout"], config["seed"], config["name"]) == (0.1, 3, "residual")
    assert "kwargs" not in config


def test_initializers_are_restored():
    layer = LearnedPositionEmbedding(8, embeddings_initializer="ones")
    again = LearnedPositionEmbedding.from_config(layer.get_config())
    assert isinstance(again.embeddings_initializer, keras.initializers.Ones)
    assert again.get_config() == layer.get_config()


@pytest.mark.parametrize(
    "saved",
    [
        {"input_shape": (None, 3, 4)},
        # As version 0.1.0 saved them.
        {"shapes_dict": {"inputs_shape": (None, 3, 4), "position_ids_shape": None}},
    ],
)
def test_layers_are_built_with_the_shapes_of_saved_models(saved):
    layer = LearnedPositionEmbedding(8)
    layer.build_from_config(saved)
    assert tuple(layer.embeddings.shape) == (8, 4)
