"""LayerNorm against NumPy in float64, where it is easy and where it is not."""

import numpy as np
import pytest

from model.layers.norms import LayerNormalization


def reference(x, gamma, beta, epsilon):
    x = x.astype("float64")
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta


@pytest.mark.parametrize("epsilon", [1e-12, 1e-2])
def test_against_numpy(epsilon):
    rng = np.random.default_rng(0)
    gamma, beta = rng.normal(size=(2, 16))
    layer = LayerNormalization(epsilon)
    layer.build((None, 16))
    layer.set_weights([gamma, beta])
    x = rng.normal(3.0, 2.0, size=(4, 5, 16)).astype("float32")
    np.testing.assert_allclose(
        layer(x), reference(x, gamma, beta, epsilon), rtol=0, atol=2e-6
    )


def test_a_mean_far_from_zero_costs_no_digits():
    x = np.random.default_rng(0).normal(size=(8, 64)).astype("float32") + 1000
    # The mean itself is rounded to 1000 * 2**-24; spread is 1.
    np.testing.assert_allclose(
        LayerNormalization()(x), reference(x, 1.0, 0.0, 1e-12), rtol=0, atol=1e-4
    )


def test_a_constant_vector_becomes_the_bias():
    assert not LayerNormalization()(np.full((2, 8), 5.0, "float32")).numpy().any()


def test_float16_is_computed_in_float32():
    # The squares, some 1e6, overflow float16.
    x = np.linspace(-1000, 1000, 64, dtype="float16")[np.newaxis]
    outputs = LayerNormalization(dtype="mixed_float16")(x).numpy()
    assert outputs.dtype == "float16"
    np.testing.assert_allclose(outputs, reference(x, 1.0, 0.0, 1e-12), atol=2e-3)
