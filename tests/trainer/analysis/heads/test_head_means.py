"""Means of heads over texts: each text once, none without queries, and intervals."""

import numpy as np
import pytest

from transbeam.trainer.analysis.heads.head_means import (
    LayerValues,
    TextSums,
    average_heads,
    means_by_text,
)


def test_each_text_has_the_same_weight():
    sums = TextSums(3)
    sums.add(
        np.array([2, 0]),
        {
            "layer": {
                "queries": np.array([4.0, 2.0]),
                "queries_with_two_keys": np.array([2.0, 0.0]),
                "entropy": np.array([[8.0, 4.0], [1.0, 2.0]]),
                "entropy_share": np.array([[1.0, 0.5], [0.0, 0.0]]),
            }
        },
    )
    values = means_by_text(sums.layers["layer"])
    np.testing.assert_array_equal(
        values["entropy"], [[0.5, 1], [np.nan, np.nan], [2, 1]]
    )
    means = average_heads("layer", values, seed=0)
    found = {(x.metric, x.head): (x.mean, x.texts) for x in means}
    assert found == {
        ("entropy", 0): (1.25, 2),  # by queries it would be 1.5
        ("entropy", 1): (1.0, 2),
        ("entropy_share", 0): (0.5, 1),
        ("entropy_share", 1): (0.25, 1),
    }
    for mean in means:
        assert mean.interval.low <= mean.mean <= mean.interval.high


def test_intervals_cover_the_mean():
    generator = np.random.default_rng(0)
    covered = 0
    for seed in range(40):
        values: LayerValues = {"entropy": generator.normal(3, 1, (60, 1))}
        (mean,) = average_heads("layer", values, seed)
        covered += mean.interval.low <= 3 <= mean.interval.high
    assert covered >= 33


def test_the_seed_decides():
    values: LayerValues = {"entropy": np.random.default_rng(0).normal(size=(20, 2))}
    first, again, other = (average_heads("layer", values, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_statistics_without_values_have_no_mean():
    values: LayerValues = {
        "end_to_end": np.full((3, 2), np.nan),
        "entropy": np.ones((3, 2)),
    }
    metrics = {mean.metric for mean in average_heads("layer", values, 0)}
    assert metrics == {"entropy"}


def test_one_text():
    (mean,) = average_heads("layer", {"entropy": np.array([[2.0]])}, 0)
    assert mean.interval == pytest.approx((2, 2, 2))
