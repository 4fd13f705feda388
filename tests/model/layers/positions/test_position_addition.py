"""Absolute positions: the numbers, the ids of packed documents, the table's end."""

import numpy as np
import pytest
from keras import ops

from tests.model.conftest import tensorflow_only
from transbeam.model.layers.positions.learned import LearnedPositionEmbedding
from transbeam.model.layers.positions.sinusoidal import (
    SinusoidalPositionEmbedding,
    sinusoids,
)

each_kind = pytest.mark.parametrize(
    "kind", [LearnedPositionEmbedding, SinusoidalPositionEmbedding]
)


def numbers(tensor) -> np.ndarray:
    return ops.convert_to_numpy(tensor)


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


@pytest.mark.parametrize("offset", [0, 2])
def test_a_learned_position_is_its_row(offset):
    layer = LearnedPositionEmbedding(3, offset=offset)
    inputs = np.full((2, 2, 2), 100.0, "float32")
    layer.build(inputs.shape)
    unused = np.full((offset, 2), np.nan)
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    layer.set_weights([np.concatenate([unused, rows])])
    assert numbers(layer(inputs)).tolist() == [[[101.0, 102.0], [103.0, 104.0]]] * 2
    packed = numbers(layer(inputs, np.array([[0, 0], [2, 1]], "int32")))
    assert packed.tolist() == [
        [[101.0, 102.0], [101.0, 102.0]],
        [[105.0, 106.0], [103.0, 104.0]],
    ]


def test_a_learned_table_begins_as_it_is_told():
    def table(**options) -> np.ndarray:
        layer = LearnedPositionEmbedding(3, offset=1, **options)
        layer.build((None, None, 2))
        return numbers(layer.embeddings)

    assert table(embeddings_initializer="ones").tolist() == [[1.0, 1.0]] * 4
    np.testing.assert_array_equal(table(seed=3), table(seed=3))
    assert (table(seed=3) != table(seed=4)).all()
    assert np.abs(table(seed=3)).max() <= 0.04  # two deviations of 0.02


@each_kind
@pytest.mark.parametrize("length", [1, 4, 6])
def test_counting_up_is_the_default(kind, length):
    layer = kind(6)
    inputs = np.zeros((2, length, 8), "float32")
    counted = np.tile(np.arange(length, dtype="int32"), (2, 1))
    np.testing.assert_array_equal(
        numbers(layer(inputs)), numbers(layer(inputs, counted))
    )


@each_kind
def test_a_long_row_of_short_documents_is_welcome(kind):
    inputs = np.zeros((1, 9, 8), "float32")
    position_ids = np.array([[0, 1, 2, 0, 1, 2, 0, 1, 2]], "int32")
    rows = numbers(kind(3)(inputs, position_ids))[0]
    np.testing.assert_array_equal(rows[:3], rows[3:6])
    assert np.abs(rows[0] - rows[1]).max() > 1e-3


@each_kind
def test_too_long_an_input_is_refused_by_name(kind):
    layer = kind(6, name="position_embedding")
    with pytest.raises(
        ValueError, match=r"inputs has shape \(1, 7, 8\); .* most 6 tokens"
    ):
        layer(np.zeros((1, 7, 8), "float32"))


def test_an_offset_is_no_room():
    layer = LearnedPositionEmbedding(6, offset=2, name="position_embedding")
    with pytest.raises(ValueError, match=r"\(1, 7, 8\); expected at most 6 tokens"):
        layer(np.zeros((1, 7, 8), "float32"))


@each_kind
@pytest.mark.parametrize("place", [-1, 6])
def test_a_place_outside_of_the_table_is_refused_by_name(kind, place):
    layer = kind(6, name="position_embedding")
    position_ids = np.array([[0, place, 3]], "int32")
    span = f"go from {min(0, place)} to {max(3, place)}; expected from"
    with pytest.raises(ValueError, match=rf"position_ids, of shape \(1, 3\), {span} 0"):
        layer(np.zeros((1, 3, 8), "float32"), position_ids)


@each_kind
@pytest.mark.parametrize(
    ("inputs", "position_ids", "message"),
    [
        (np.zeros((3, 8)), None, r"inputs has shape \(3, 8\)"),
        (np.zeros((1, 3, 8)), np.zeros(3, "int32"), r"position_ids has shape \(3,\)"),
        (
            np.zeros((1, 3, 8)),
            np.zeros((1, 2), "int32"),
            r"\(1, 2\); expected \(1, 3\)",
        ),
        (np.zeros((1, 3, 8)), np.zeros((1, 3)), "position_ids has dtype float32"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(kind, inputs, position_ids, message):
    layer = kind(6, name="position_embedding")
    layer.build((None, None, 8))
    with pytest.raises(ValueError, match=f"position_embedding: .*{message}"):
        layer(inputs, position_ids)


@tensorflow_only
@each_kind
def test_a_length_known_only_at_run_time_is_not_cut_short(kind):
    import tensorflow as tf

    layer = kind(1)
    call = tf.function(
        layer, input_signature=[tf.TensorSpec((None, None, 8), tf.float32)]
    )
    assert call(np.zeros((2, 1, 8), "float32")).shape == (2, 1, 8)
    with pytest.raises(tf.errors.InvalidArgumentError, match="size"):
        call(np.zeros((2, 2, 8), "float32"))
