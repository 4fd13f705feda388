"""Positions: the numbers, the ids of packed documents, and the length's end."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from configs.errors import DataError
from model.layers.positions.learned import LearnedPositionEmbedding
from model.layers.positions.linear_bias import LinearBias
from model.layers.positions.sinusoidal import SinusoidalPositionEmbedding, sinusoids

each_kind = pytest.mark.parametrize(
    "kind", [LearnedPositionEmbedding, SinusoidalPositionEmbedding]
)


def test_sinusoids_by_hand():
    # Wavelengths 1 and 100 ** (2 / 4) = 10, in units of 2 pi.
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [np.sin(1.0), np.cos(1.0), np.sin(0.1), np.cos(0.1)],
        [np.sin(2.0), np.cos(2.0), np.sin(0.2), np.cos(0.2)],
    ]
    np.testing.assert_allclose(sinusoids(3, 4, max_wavelength=100.0), expected, 1e-6)


def test_an_odd_width_ends_with_a_sine():
    np.testing.assert_allclose(sinusoids(2, 3)[1, 2], np.sin(10_000.0 ** (-2 / 3)))


def test_a_learned_position_is_its_row():
    layer = LearnedPositionEmbedding(3)
    inputs = np.full((2, 2, 2), 100.0, "float32")
    layer.build(inputs.shape)
    layer.set_weights([np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])])
    assert layer(inputs).numpy().tolist() == [[[101.0, 102.0], [103.0, 104.0]]] * 2
    packed = layer(inputs, np.array([[0, 0], [2, 1]], "int32")).numpy()
    assert packed.tolist() == [
        [[101.0, 102.0], [101.0, 102.0]],
        [[105.0, 106.0], [103.0, 104.0]],
    ]


@each_kind
@pytest.mark.parametrize("length", [1, 4, 6])
def test_counting_up_is_the_default(kind, length):
    layer = kind(6)
    inputs = np.zeros((2, length, 8), "float32")
    counted = np.tile(np.arange(length, dtype="int32"), (2, 1))
    np.testing.assert_array_equal(layer(inputs), layer(inputs, counted))


@each_kind
def test_too_long_an_input_is_refused_by_name(kind):
    layer = kind(6, name="position_embedding")
    with pytest.raises(DataError, match="position_embedding: the input has 7 tokens"):
        layer(np.zeros((1, 7, 8), "float32"))


@each_kind
def test_a_length_known_only_at_run_time_is_not_cut_short(kind):
    layer = kind(1)
    call = tf.function(
        layer, input_signature=[tf.TensorSpec((None, None, 8), tf.float32)]
    )
    assert call(np.zeros((2, 1, 8), "float32")).shape == (2, 1, 8)
    with pytest.raises(tf.errors.InvalidArgumentError, match="size"):
        call(np.zeros((2, 2, 8), "float32"))


@each_kind
def test_a_long_row_of_short_documents_is_welcome(kind):
    inputs = np.zeros((1, 9, 8), "float32")
    position_ids = np.array([[0, 1, 2, 0, 1, 2, 0, 1, 2]], "int32")
    rows = kind(3)(inputs, position_ids).numpy()[0]
    np.testing.assert_array_equal(rows[:3], rows[3:6])


def test_linear_bias_by_hand():
    bias = ops.convert_to_numpy(LinearBias(num_heads=4)(ops.zeros((1, 4, 3, 3))))[0]
    side = np.array([[0, 4, 4], [0, 0, 4], [0, 0, 0]])  # of a head that leans left
    distance = np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    np.testing.assert_allclose(bias[0], -1 * distance - side)
    np.testing.assert_allclose(bias[1], -1 * distance - side.T)
    np.testing.assert_allclose(bias[2], -distance / 16 - side)
    np.testing.assert_allclose(bias[3], -distance / 16 - side.T)


def test_linear_bias_takes_any_length():
    long = ops.convert_to_numpy(LinearBias(2)(ops.zeros((1, 2, 9, 9))))
    short = ops.convert_to_numpy(LinearBias(2)(ops.zeros((1, 2, 4, 4))))
    np.testing.assert_array_equal(long[..., :4, :4], short)
