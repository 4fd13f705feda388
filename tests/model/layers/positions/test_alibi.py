"""ALiBi: slopes, distances, directions."""

import numpy as np
import pytest
from keras import KerasTensor, ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.layers.positions.alibi import LinearBias, alibi_slopes


def bias(layer: LinearBias, queries, keys) -> np.ndarray:
    queries, keys = np.array(queries, "int32"), np.array(keys, "int32")
    return ops.convert_to_numpy(layer(queries, keys))


def test_slopes_of_a_power_of_two_are_the_papers():
    assert alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(16)[:4].tolist() == [2**-0.5, 0.5, 2**-1.5, 0.25]
    assert alibi_slopes(1).tolist() == [2.0**-8]


def test_other_numbers_of_heads_take_from_both_sides():
    # Those of 4 heads, then the first, third, ... of 8.
    assert alibi_slopes(6).tolist() == [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]
    assert alibi_slopes(3).tolist() == [2**-4, 2**-8, 2**-2]
    of_16 = alibi_slopes(16)[::2]
    np.testing.assert_allclose(alibi_slopes(12)[8:], of_16[:4], rtol=1e-15)


def test_scores_fall_with_the_distance():
    distance = np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    expected = [-(2.0 ** -(4 * (i + 1))) * distance for i in range(2)]
    np.testing.assert_array_equal(bias(LinearBias(2), range(3), range(3)), expected)


def test_heads_lean_to_both_sides():
    found = bias(LinearBias(4, directed=True), range(3), range(3))
    side = np.array([[0, 4, 4], [0, 0, 4], [0, 0, 0]])  # of a head that leans left
    distance = np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    np.testing.assert_array_equal(found[0], -1 * distance - side)
    np.testing.assert_array_equal(found[1], -1 * distance - side.T)
    np.testing.assert_array_equal(found[2], -distance / 16 - side)
    np.testing.assert_array_equal(found[3], -distance / 16 - side.T)


@pytest.mark.parametrize("directed", [False, True])
def test_a_block_of_pairs_is_that_block_of_all(directed):
    layer = LinearBias(2, directed=directed)
    whole = bias(layer, range(9), range(9))
    np.testing.assert_array_equal(
        bias(layer, range(3, 5), range(2, 7)), whole[:, 3:5, 2:7]
    )
    rows = [[0, 1, 0, 1], [0, 1, 2, 3]]  # two documents; one
    packed = bias(layer, rows, rows)
    assert packed.shape == (2, 2, 4, 4)
    np.testing.assert_array_equal(packed[0, :, 2:, 2:], whole[:, :2, :2])
    np.testing.assert_array_equal(packed[1], whole[:, :4, :4])


def test_far_distances_are_exact_in_half_precision():
    layer = LinearBias(8, dtype="mixed_bfloat16")
    found = layer(np.array([0]), np.array([257]))
    assert ops.convert_to_numpy(found)[0, 0, 0] == -128.5
    spec = layer.compute_output_spec(
        KerasTensor((None, 7, 3), "int32"), KerasTensor((None, 1, 5), "int32")
    )
    assert (spec.shape, spec.dtype) == ((None, 7, 8, 3, 5), "float32")


def test_what_cannot_be_read_is_refused_by_name():
    with pytest.raises(ConfigError, match="bias: num_heads=3 is odd"):
        LinearBias(3, directed=True, name="bias")
    with pytest.raises(ValueError, match="bias: key_positions has dtype float32"):
        LinearBias(2, name="bias")(ops.arange(2), ops.ones(2))
    with pytest.raises(ValueError, match=r"bias: query_positions has shape \(\)"):
        LinearBias(2, name="bias")(ops.convert_to_tensor(1), ops.arange(2))
