"""T5's biases: which distance belongs to which number."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.layers.positions.relative_bias import (
    RelativeBias,
    RelativeBiasTable,
    relative_buckets,
)


def bucket_by_whole_numbers(
    ahead: int, num_buckets: int, max_distance: int, bidirectional: bool
) -> int:
    """The buckets without a logarithm.

    Beyond the single distances `m`, bucket `m + j` of `m + n` begins at the distance
    `m (max_distance / m) ** (j / n)`, and `d` is not below it if
    `d ** n >= m ** (n - j) max_distance ** j`.
    """
    side = num_buckets // 2 if bidirectional else num_buckets
    single = side // 2
    steps = side - single
    first = side if bidirectional and ahead > 0 else 0
    distance = abs(ahead) if bidirectional else max(-ahead, 0)
    if distance < single:
        return first + distance
    step = max(
        j
        for j in range(steps)
        if distance**steps >= single ** (steps - j) * max_distance**j
    )
    return first + single + step


def test_an_encoders_buckets_by_hand():
    # 16 a side, 8 single; the others begin at 8 * 16 ** (j / 8) =
    # 8, 11.3, 16, 22.6, 32, 45.3, 64, 90.5.
    by_distance = {0: 0, 1: 1, 7: 7, 8: 8, 11: 8, 12: 9, 15: 9, 16: 10, 22: 10}
    by_distance |= {23: 11, 31: 11, 32: 12, 45: 12, 46: 13, 63: 13, 64: 14, 90: 14}
    by_distance |= {91: 15, 128: 15, 10_000: 15}
    distance = np.array(list(by_distance))
    bucket = np.array(list(by_distance.values()))
    np.testing.assert_array_equal(relative_buckets(-distance), bucket)
    np.testing.assert_array_equal(relative_buckets(distance[1:]), 16 + bucket[1:])


def test_a_decoders_buckets_by_hand():
    # 16 single; the others begin at 16 * 8 ** (j / 16) =
    # 16, 18.2, 20.7, 23.6, ..., 112.4.
    by_distance = {0: 0, 15: 15, 16: 16, 18: 16, 19: 17, 20: 17, 21: 18, 23: 18}
    by_distance |= {24: 19, 112: 30, 113: 31, 128: 31, 10_000: 31}
    distance = np.array(list(by_distance))
    bucket = list(by_distance.values())
    assert relative_buckets(-distance, bidirectional=False).tolist() == bucket
    assert relative_buckets(distance, bidirectional=False).max() == 0


@given(
    quarter=st.integers(1, 16),
    room=st.integers(1, 200),
    bidirectional=st.booleans(),
    ahead=st.lists(st.integers(-600, 600), min_size=1, max_size=40),
)
def test_ranges_are_equal_steps_of_the_logarithm(quarter, room, bidirectional, ahead):
    num_buckets, max_distance = 4 * quarter, 2 * quarter + room
    arguments = (num_buckets, max_distance, bidirectional)
    expected = [bucket_by_whole_numbers(a, *arguments) for a in ahead]
    assert relative_buckets(np.array(ahead), *arguments).tolist() == expected


@pytest.mark.parametrize("bidirectional", [True, False])
def test_every_pair_gets_the_number_of_its_bucket(bidirectional):
    layer = RelativeBias(8, 12, bidirectional=bidirectional)
    table = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    queries, keys = np.arange(3, 30, dtype="int32"), np.arange(40, dtype="int32")
    found = ops.convert_to_numpy(layer(queries, keys, table))
    buckets = relative_buckets(keys - queries[:, None], 8, 12, bidirectional)
    np.testing.assert_array_equal(found, np.moveaxis(table[buckets], -1, 0))


def test_a_block_of_pairs_is_that_block_of_all():
    layer = RelativeBias(8, 12)
    table = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    whole = ops.convert_to_numpy(layer(ops.arange(9), ops.arange(9), table))
    rows = np.array([[0, 1, 0, 1], [0, 1, 2, 3]], "int32")  # two documents; one
    packed = ops.convert_to_numpy(layer(rows, rows, table))
    assert packed.shape == (2, 3, 4, 4)
    np.testing.assert_array_equal(packed[0, :, 2:, 2:], whole[:, :2, :2])
    np.testing.assert_array_equal(packed[1], whole[:, :4, :4])
    blocks = rows[:, None, :]  # one block of queries against two of keys
    keys = np.stack([rows, rows + 4], axis=1)
    found = ops.convert_to_numpy(layer(blocks, keys, table))
    assert found.shape == (2, 2, 3, 4, 4)
    np.testing.assert_array_equal(found[1, 1], whole[:, :4, 4:8])


def test_biases_and_their_table_are_float32_in_half_precision():
    table = RelativeBiasTable(
        4, 1, embeddings_initializer="glorot_uniform", seed=1, dtype="mixed_bfloat16"
    )
    inputs = keras.Input((None,), dtype="int32")
    announced = table(inputs)
    assert (announced.shape, announced.dtype) == ((4, 1), "float32")
    weights = ops.convert_to_numpy(table(np.zeros((2, 3), "int32")))
    np.testing.assert_array_equal(weights, table.get_weights()[0])

    layer = RelativeBias(4, 8, dtype="mixed_bfloat16")
    spec = layer.compute_output_spec(
        keras.KerasTensor((None, 7, 3), "int32"),
        keras.KerasTensor((None, 1, 5), "int32"),
        announced,
    )
    assert (spec.shape, spec.dtype) == ((None, 7, 1, 3, 5), "float32")
    places = np.arange(2, dtype="int32")
    found = ops.convert_to_numpy(layer(places, places, weights))
    np.testing.assert_array_equal(found[0], weights[[[0, 3], [1, 0]], 0])


def test_tables_of_one_seed_are_equal():
    def weights(seed: int) -> np.ndarray:
        table = RelativeBiasTable(4, 2, seed=seed)
        return ops.convert_to_numpy(table(ops.ones((1, 1))))

    np.testing.assert_array_equal(weights(1), weights(1))
    assert (weights(1) != weights(2)).all()


def test_what_cannot_be_read_is_refused_by_name():
    with pytest.raises(ConfigError, match="max_distance must be more than 8"):
        RelativeBias(32, 8)
    with pytest.raises(ConfigError, match="num_buckets at least 4"):
        RelativeBias(2, 8)
    layer, places = RelativeBias(4, 8, name="bias"), ops.arange(3)
    message = r"bias: bias_table has shape \(3, 1\); expected \(num_buckets=4, heads\)"
    with pytest.raises(ValueError, match=message):
        layer(places, places, ops.ones((3, 1)))
    with pytest.raises(ValueError, match="bias: query_positions has dtype float32"):
        layer(ops.ones(3), places, ops.ones((4, 1)))
