"""Frozen weights stay, the others change."""

import keras
import numpy as np
import pytest

from tests.model.block_stacks import HIDDEN_DIM, small_model, train
from transbeam.configs.base.errors import ConfigError
from transbeam.model.adaptation.freezing import count_parameters, freeze, unfreeze


def test_frozen_weights_stay_and_the_others_move():
    model = small_model(num_heads=2)
    counted = freeze(model, ["token_embedding/*", "*/feedforward/*", "*/beta"])
    old = {w.path: keras.ops.convert_to_numpy(w) for w in model.weights}
    train(model)
    for weight in model.weights:
        now = keras.ops.convert_to_numpy(weight)
        frozen = ("token_embedding", "/feedforward/", "/beta")
        if any(part in weight.path for part in frozen):
            np.testing.assert_array_equal(now, old[weight.path], weight.path)
        elif not weight.path.endswith("key/bias"):
            assert np.abs(now - old[weight.path]).max() > 1e-3, weight.path
    assert counted.total == model.count_params()
    assert counted == count_parameters(model)


def test_counts_and_unfreezing():
    model = small_model(num_heads=2)
    total = model.count_params()
    assert freeze(model, ["*"]).trainable == 0
    assert model.trainable_weights == []
    counted = unfreeze(model, ["encoder_layer_0/self_attention/query/*"])
    assert counted.trainable == HIDDEN_DIM * HIDDEN_DIM + HIDDEN_DIM
    assert counted.frozen == total - counted.trainable
    assert str(counted) == (
        f"{counted.trainable:,} of {total:,} parameters trained "
        f"({counted.trainable / total:.2%})"
    )
    assert unfreeze(model, ["*"]).frozen == 0


def test_a_pattern_that_fits_nothing_names_the_nearest():
    model = small_model(num_heads=2)
    said = (
        "'encoder_layer_0/self_atention/query/kernel' fits the path of no weight. "
        "Most like it: encoder_layer_0/self_attention/query/kernel, "
    )
    with pytest.raises(ConfigError, match=said):
        freeze(model, ["*", "encoder_layer_0/self_atention/query/kernel"])
    assert count_parameters(model).frozen == 0  # all or nothing
