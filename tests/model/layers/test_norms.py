"""The norms against NumPy in float64, where it is easy and where it is not."""

import keras
import numpy as np
import pytest

from tests.model.gradients import value_and_gradients
from transbeam.model.layers.norms import LayerNormalization, RMSNormalization


def layer_norm(x, gamma, beta, epsilon):
    x = x.astype("float64")
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta


def rms_norm(x, gamma, epsilon):
    x = x.astype("float64")
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * gamma


def with_weights(layer: keras.layers.Layer, *weights: np.ndarray):
    layer.build((None, len(weights[0])))
    layer.set_weights(list(weights))
    return layer


@pytest.mark.parametrize("epsilon", [1e-12, 1e-2])
def test_layer_norm_against_numpy(epsilon):
    rng = np.random.default_rng(0)
    gamma, beta = rng.normal(size=(2, 16))
    layer = with_weights(LayerNormalization(epsilon), gamma, beta)
    x = rng.normal(3.0, 2.0, size=(4, 5, 16)).astype("float32")
    np.testing.assert_allclose(
        layer(x), layer_norm(x, gamma, beta, epsilon), rtol=0, atol=2e-6
    )


def test_a_mean_far_from_zero_costs_no_digits():
    # Multiples of 1/128 about 1,024: float32 holds their sum, and so their mean.
    x = np.random.default_rng(0).normal(1024, 1, (8, 64)).astype("float32")
    x = np.round(x * 128) / 128
    np.testing.assert_allclose(
        LayerNormalization()(x), layer_norm(x, 1.0, 0.0, 1e-12), rtol=0, atol=2e-6
    )


def test_a_constant_vector_becomes_the_bias():
    assert not np.any(LayerNormalization()(np.full((2, 8), 5.0, "float32")))


@pytest.mark.parametrize("epsilon", [1e-6, 1e-2])
def test_rms_norm_against_numpy(epsilon):
    rng = np.random.default_rng(0)
    gamma = rng.normal(size=16)
    layer = with_weights(RMSNormalization(epsilon), gamma)
    x = rng.normal(3.0, 2.0, size=(4, 5, 16)).astype("float32")
    np.testing.assert_allclose(layer(x), rms_norm(x, gamma, epsilon), rtol=0, atol=2e-6)


def test_rms_norm_keeps_the_mean_and_not_the_size():
    x = np.array([[1.0, 2.0, 3.0, 4.0]], "float32")
    layer = RMSNormalization(epsilon=0.0)
    np.testing.assert_allclose(layer(x), x / np.sqrt(7.5), rtol=1e-6)
    np.testing.assert_allclose(layer(1000 * x), layer(x), rtol=1e-6)


def test_rms_norm_of_nothing_is_nothing():
    assert not np.any(RMSNormalization()(np.zeros((2, 8), "float32")))


def test_rms_norm_against_keras():
    rng = np.random.default_rng(0)
    x, gamma, worth = (
        rng.normal(size=shape).astype("float32") for shape in ((3, 16), (16,), (3, 16))
    )
    inputs = keras.Variable(x)

    def answer_and_slopes(layer):
        with_weights(layer, gamma)
        variables = [inputs, *layer.trainable_variables]
        answer, slopes = value_and_gradients(lambda: layer(inputs) * worth, variables)
        return answer, *slopes

    ours = answer_and_slopes(RMSNormalization(1e-5))
    theirs = answer_and_slopes(keras.layers.RMSNormalization(epsilon=1e-5))
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("layer_class", [LayerNormalization, RMSNormalization])
def test_float16_is_computed_in_float32(layer_class):
    # The squares, some 1e6, overflow float16.
    x = np.linspace(-1000, 1000, 64, dtype="float16")[np.newaxis]
    outputs = np.asarray(layer_class(dtype="mixed_float16")(x))
    assert outputs.dtype == "float16"
    # The mean is 0, so that both norms do the same.
    np.testing.assert_allclose(outputs, layer_norm(x, 1.0, 0.0, 1e-12), atol=2e-3)
