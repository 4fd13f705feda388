"""Squares of an image in the order a convolution takes them."""

import keras
import numpy as np
import pytest

from tests.model.gradients import value_and_gradients
from transbeam.model.layers.patches import ClassToken, PatchEmbedding


def weighted(patch_size: int, hidden_dim: int, channels: int) -> PatchEmbedding:
    rng = np.random.default_rng(0)
    layer = PatchEmbedding(patch_size, hidden_dim, name="patch_embedding")
    layer.build((None, None, None, channels))
    layer.set_weights([rng.normal(size=w.shape) for w in layer.weights])
    return layer


def test_pixels_by_hand():
    # Four squares of 2 x 2 pixels; the kernel copies them.
    image = np.arange(16, dtype="float32").reshape(1, 4, 4, 1)
    layer = PatchEmbedding(2, 4)
    layer.build(image.shape)
    layer.set_weights([np.eye(4), np.zeros(4)])
    assert np.asarray(layer(image)).tolist() == [
        [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    ]


@pytest.mark.parametrize("shape", [(2, 6, 6, 3), (1, 3, 9, 2)])
def test_against_a_convolution(shape):
    rng = np.random.default_rng(1)
    image = keras.Variable(rng.normal(size=shape).astype("float32"))
    layer = weighted(3, 5, channels=shape[-1])
    kernel, bias = (np.asarray(weight.value) for weight in layer.weights)
    convolution = keras.layers.Conv2D(5, 3, strides=3)
    convolution.build(shape)
    convolution.set_weights([kernel.reshape(3, 3, shape[-1], 5), bias])

    def patches(x):
        return keras.ops.reshape(convolution(x), (shape[0], -1, 5))

    answer = layer(image)
    np.testing.assert_allclose(answer, patches(image), rtol=0, atol=1e-5)
    worth = rng.normal(size=answer.shape).astype("float32")
    _, ours = value_and_gradients(lambda: layer(image) * worth, [image, *layer.weights])
    _, theirs = value_and_gradients(
        lambda: patches(image) * worth, [image, *convolution.weights]
    )
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other.reshape(mine.shape), rtol=0, atol=2e-5)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_bytes_are_scaled(policy):
    layer = PatchEmbedding(1, 1, dtype=policy)
    layer.build((None, 1, 3, 1))
    layer.set_weights([np.ones((1, 1)), np.zeros(1)])
    image = np.array([0, 255, 51], "uint8").reshape(1, 1, 3, 1)
    pixels = np.asarray(keras.ops.cast(layer(image), "float32")).ravel()
    # 51 / 255 is 0.2, twice that less one -0.6; bfloat16 has eight bits.
    np.testing.assert_allclose(
        pixels, [-1.0, 1.0, -0.6], atol=1e-6 if policy == "float32" else 2e-3
    )
    as_they_are = layer(image.astype("float32"))
    np.testing.assert_allclose(np.asarray(as_they_are).ravel(), [0, 255, 51])


def test_the_batch_may_be_free():
    layer = weighted(2, 5, channels=3)
    image = keras.Input((4, 6, 3), dtype="uint8")
    assert layer(image).shape == (None, 6, 5)
    model = keras.Model(image, layer(image))
    assert model(np.zeros((7, 4, 6, 3), "uint8")).shape == (7, 6, 5)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((4, 4, 3), "uint8"), r"shape \(4, 4, 3\); expected \(batch, height"),
        (np.zeros((1, 4, 4, 3), "int32"), "dtype int32; expected uint8"),
        (np.zeros((1, 4, 5, 3), "uint8"), "multiples of 2"),
        (np.zeros((1, 4, 4, 1), "uint8"), r"shape \(1, 4, 4, 1\); .* with 3 channels"),
    ],
)
def test_what_is_no_image_of_squares_is_refused(image, message):
    layer = weighted(2, 5, channels=3)
    with pytest.raises(ValueError, match=message):
        layer(image)


def test_the_class_token_comes_first():
    layer = ClassToken()
    layer.build((None, None, 2))
    layer.set_weights([np.array([[7.0, 8.0]])])
    x = np.arange(8, dtype="float32").reshape(2, 2, 2)
    assert np.asarray(layer(x)).tolist() == [
        [[7, 8], [0, 1], [2, 3]],
        [[7, 8], [4, 5], [6, 7]],
    ]
    _, (gradient,) = value_and_gradients(lambda: layer(x), layer.weights)
    assert gradient.tolist() == [[2.0, 2.0]]  # one for each row
