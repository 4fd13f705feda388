"""Rank correlation, against SciPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops
from scipy import stats

from transbeam.model.inspect.rank_correlation import average_ranks, correlate_ranks


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([2, 1000]))
def test_against_scipy(seed, kinds):
    """With two kinds of values most of them are equal to another."""
    generator = np.random.default_rng(seed)
    x, y = generator.integers(0, kinds, (2, 4, 9)).astype("float32")
    counted = generator.random((4, 9)) < 0.7
    ranks = ops.convert_to_numpy(average_ranks(x, counted))
    found, defined = (ops.convert_to_numpy(a) for a in correlate_ranks(x, y, counted))
    for row, here in enumerate(counted):
        np.testing.assert_array_equal(
            ranks[row][here], stats.rankdata(x[row][here]) - 1
        )
        differs = [here.any() and np.ptp(part[row][here]) > 0 for part in (x, y)]
        assert defined[row] == (here.sum() > 2 and all(differs))
        expected = 0.0
        if defined[row]:
            expected = stats.spearmanr(x[row][here], y[row][here]).statistic
        assert found[row] == pytest.approx(expected, abs=1e-5)


def test_values_that_do_not_count():
    x = np.array([[1.0, 2.0, 3.0, -9.0]])
    counted = np.array([[True, True, True, False]])
    found, _ = correlate_ranks(x, np.array([[2.0, 4.0, 8.0, 99.0]]), counted)
    assert ops.convert_to_numpy(found).tolist() == [1.0]
