"""The bilinear filter is Pillow's, at every size, to the last bit."""

from functools import cache

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from transbeam.serving.images.resizing import resize

BILINEAR = Image.Resampling.BILINEAR


@cache
def resizer(size: int):
    image = tf.TensorSpec([None, None, 3], tf.uint8)
    return tf.function(lambda x: resize(x, size)).get_concrete_function(image)


def check(height: int, width: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
    expected = np.array(Image.fromarray(pixels).resize((size, size), BILINEAR))
    np.testing.assert_array_equal(resizer(size)(tf.constant(pixels)), expected)


@settings(max_examples=40)
@given(
    st.integers(1, 90),
    st.integers(1, 90),
    st.sampled_from([1, 7, 32]),
    st.integers(0, 9),
)
@example(800, 7, 32, 0)  # more than 100 times as high: along the columns first
@example(700, 7, 32, 0)
@example(7, 800, 32, 0)
@example(31, 1, 32, 0)
def test_any_size(height: int, width: int, size: int, seed: int):
    check(height, width, size, seed)


@pytest.mark.parametrize("size", [224, 384])
def test_as_large_as_photographs(size: int):
    check(756, 1008, size, 0)


def test_extremes_stay():
    for value in (0, 255):
        pixels = tf.fill([50, 77, 3], tf.constant(value, tf.uint8))
        assert (resizer(7)(pixels).numpy() == value).all()
