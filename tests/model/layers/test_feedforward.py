"""The network between two attentions, in NumPy."""

import math

import keras
import numpy as np
import pytest

from transbeam.model.layers.feedforward import FeedForward, GatedFeedForward

X = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")


def normal_share(x):
    return np.vectorize(lambda value: (1 + math.erf(value / math.sqrt(2))) / 2)(x)


ACTIVATIONS = {
    "gelu": lambda x: x * normal_share(x),
    "gelu_tanh": lambda x: (
        x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    ),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def randomised(layer: keras.layers.Layer) -> dict[str, np.ndarray]:
    """Fills every weight and returns them by path."""
    rng = np.random.default_rng(1)
    layer.build(X.shape)
    for weight in layer.weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return {w.path.split("/", 1)[1]: np.asarray(w.value) for w in layer.weights}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_dense_against_numpy(activation):
    layer = FeedForward(8, 12, activation=activation)
    w = randomised(layer)
    wide = ACTIVATIONS[activation](
        X @ w["intermediate/kernel"] + w["intermediate/bias"]
    )
    expected = wide @ w["output/kernel"] + w["output/bias"]
    np.testing.assert_allclose(layer(X), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gated_against_numpy(activation):
    layer = GatedFeedForward(8, 12, activation=activation, use_bias=True)
    w = randomised(layer)
    gate, wide = (
        X @ w[f"{name}/kernel"] + w[f"{name}/bias"] for name in ("gate", "intermediate")
    )
    wide = ACTIVATIONS[activation](gate) * wide
    expected = wide @ w["output/kernel"] + w["output/bias"]
    np.testing.assert_allclose(layer(X), expected, rtol=0, atol=5e-5)


def test_gated_is_swiglu_without_biases_by_default():
    layer = GatedFeedForward(8, 12)
    assert set(randomised(layer)) == {
        "gate/kernel",
        "intermediate/kernel",
        "output/kernel",
    }
    assert layer.activation == "silu"


def test_no_biases():
    layer = FeedForward(8, 12, use_bias=False)
    assert set(randomised(layer)) == {"intermediate/kernel", "output/kernel"}


@pytest.mark.parametrize("layer_class", [FeedForward, GatedFeedForward])
def test_dropout_is_on_the_wide_vector(layer_class):
    # The last layer copies its input, so that what was dropped can be seen.
    layer = layer_class(8, 8, dropout=0.25, use_bias=False, seed=3)
    randomised(layer)
    layer.output_projection.set_weights([np.eye(8)])
    kept = np.asarray(layer(X))
    trained = np.asarray(layer(X, training=True))
    dropped = trained == 0
    assert 0 < dropped.mean() < 0.6
    np.testing.assert_allclose(trained[~dropped], kept[~dropped] / 0.75, rtol=1e-5)
    np.testing.assert_array_equal(layer(X, training=False), kept)


@pytest.mark.parametrize("layer_class", [FeedForward, GatedFeedForward])
def test_each_kernel_draws_from_its_own_seed(layer_class):
    def kernels(**options) -> list[np.ndarray]:
        layer = layer_class(8, 8, kernel_initializer="random_normal", **options)
        layer.build(X.shape)
        return [np.asarray(w.value) for w in layer.weights if "kernel" in w.path]

    drawn = kernels(seed=3)
    assert len({kernel.tobytes() for kernel in drawn}) == len(drawn)
    for same, other, kernel in zip(
        kernels(seed=3), kernels(seed=4), drawn, strict=True
    ):
        np.testing.assert_array_equal(same, kernel)
        assert np.abs(other - kernel).max() > 1e-3


def test_the_last_kernel_may_start_smaller():
    layer = FeedForward(
        8,
        12,
        kernel_initializer="ones",
        output_initializer=keras.initializers.Constant(0.5),
    )
    layer.build(X.shape)
    starts = {w.path.split("/", 1)[1]: np.unique(w.value) for w in layer.weights}
    assert starts["intermediate/kernel"].tolist() == [1.0]
    assert starts["output/kernel"].tolist() == [0.5]
