"""A head on a decoder begins with a language model's weights, and learns by LoRA."""

from dataclasses import replace

import numpy as np

from tests.objective_configs import config_of
from transbeam.configs.schema.adaptation import LoraWeightsConfig
from transbeam.model.cost.report import count_cost
from transbeam.model.weights.assign import variables_by_path
from transbeam.model.weights.safetensors_store import load_matching_weights
from transbeam.trainer.base.adaptation import adapt
from transbeam.trainer.base.training_stage import build_trainable

PIECES = 40


def test_the_head_alone_is_new():
    written = build_trainable(config_of("causal"), PIECES)
    weights = {
        path: np.asarray(x) + 1 for path, x in variables_by_path(written).items()
    }
    model = build_trainable(config_of("classification", "decoder"), PIECES)
    assert load_matching_weights(model, weights, "lm") == ["classifier/kernel"]
    for path, variable in variables_by_path(model).items():
        if path != "classifier/kernel":
            np.testing.assert_array_equal(np.asarray(variable), weights[path])


def test_adapters_and_the_head_are_trained_and_counted():
    config = config_of("classification", "decoder")
    adaptation = LoraWeightsConfig(rank=2)
    training = replace(config.training, init_from="runs/lm", adaptation=adaptation)
    config = replace(config, training=training)
    model = build_trainable(config, PIECES)
    counted = adapt(model, adaptation, seed=0)
    paths = {weight.path for weight in model.trainable_weights}
    assert "classifier/kernel" in paths
    assert not [path for path in paths if path.endswith("norm/gamma")]
    cost = count_cost(config, vocabulary_size=PIECES)["parameters"]
    assert cost["trained"] == counted.trainable
