"""Numbers against those that are right: by hand, and beside SciPy."""

import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from transbeam.trainer.metrics.confidence_intervals import intervals, intervals_of_draws
from transbeam.trainer.metrics.regression import RankCorrelation, RegressionScores

# Few values, so that many are equal.
numbers = st.sampled_from([-3.0, -0.5, 0.0, 0.25, 1.0, 2.0, 7.5])
units = st.lists(st.tuples(numbers, numbers, st.integers(0, 3)), min_size=2)


def scores_of(predictions, targets) -> dict[str, float]:
    metric = RegressionScores()
    sums = metric.statistics(predictions, targets).sum(axis=0)
    return {name: score.item() for name, score in metric.scores(sums).items()}


def spearman_of(predictions, targets, counts=None) -> float:
    metric = RankCorrelation()
    scores = metric.scores_of_draws(metric.statistics(predictions, targets))
    counts = np.ones(len(targets)) if counts is None else np.asarray(counts)
    return scores(counts[np.newaxis])["spearman_correlation"].item()


def test_by_hand() -> None:
    # Errors 1, 0, -2, 1; targets are 2, 0, 2, 4 around a mean of 2.
    found = scores_of([3.0, 0.0, 0.0, 5.0], [2.0, 0.0, 2.0, 4.0])
    assert found["mse"] == 6 / 4
    assert found["mae"] == 4 / 4
    assert found["r_squared"] == 1 - 6 / 8
    # Around their means, 2 and 2: 1, -2, -2, 3 and 0, -2, 0, 2.
    expected = (4 + 6) / np.sqrt((1 + 4 + 4 + 9) * (4 + 4))
    assert found["pearson_correlation"] == pytest.approx(expected, rel=1e-12)


def test_ranks_by_hand() -> None:
    # Ranks 1, 2.5, 2.5, 4 and 2, 3, 1, 4; around 2.5 they are
    # -1.5, 0, 0, 1.5 and -0.5, 0.5, -1.5, 1.5.
    found = spearman_of([0.0, 7.0, 7.0, 8.0], [2.0, 3.0, -9.0, 50.0])
    assert found == pytest.approx((0.75 + 2.25) / np.sqrt(4.5 * 5.0), rel=1e-12)


@given(units)
def test_correlations_are_those_of_scipy(rows) -> None:
    predictions, targets, _ = np.array(rows).T
    found = scores_of(predictions, targets)["pearson_correlation"]
    ranks = spearman_of(predictions, targets)
    if len(set(predictions)) == 1 or len(set(targets)) == 1:
        assert found == ranks == 0.0
        return
    expected = scipy.stats.pearsonr(predictions, targets).statistic
    assert found == pytest.approx(expected, abs=1e-9)
    expected = scipy.stats.spearmanr(predictions, targets).statistic
    assert ranks == pytest.approx(expected, abs=1e-9)


@given(units)
def test_ranks_of_a_draw_are_those_of_what_was_drawn(rows) -> None:
    predictions, targets, counts = np.array(rows).T
    drawn = [np.repeat(x, counts.astype(int)) for x in (predictions, targets)]
    if not len(drawn[0]):
        return
    found = spearman_of(predictions, targets, counts)
    assert found == pytest.approx(spearman_of(*drawn), abs=1e-12)


def test_without_anything_that_varies() -> None:
    found = scores_of([0.1, 0.1, 0.1], [0.3, 0.3, 0.3])
    assert found["pearson_correlation"] == 0.0
    assert np.isnan(found["r_squared"])
    assert found["mse"] == pytest.approx(0.04)
    # Roundings of float32 are no variance either, far from zero.
    almost = np.float32(1000.0) * (1 + np.float32(1e-7) * np.arange(5))
    assert scores_of(almost, np.arange(5.0))["pearson_correlation"] == 0.0


def test_a_model_that_diverged_is_scored_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = scores_of([np.nan, 1.0], [0.0, 1.0])
    assert np.isnan(found["mse"])
    assert np.isnan(found["pearson_correlation"])


def test_one_number_for_each_unit() -> None:
    for metric in (RegressionScores(), RankCorrelation()):
        for shapes in (((2,), (3,)), ((2, 1), (2, 1))):
            with pytest.raises(ValueError, match="one shape"):
                metric.statistics(*map(np.zeros, shapes))


def test_draws_are_those_of_the_other_intervals() -> None:
    rng = np.random.default_rng(2)
    targets = rng.normal(size=60)
    statistics = RegressionScores().statistics(targets + rng.normal(size=60), targets)
    found = intervals_of_draws(
        60, lambda c: RegressionScores().scores(c @ statistics), 4
    )
    expected = intervals(statistics, RegressionScores().scores, 4)
    assert found.keys() == expected.keys()
    for name, interval in found.items():
        np.testing.assert_allclose(interval, expected[name], rtol=1e-9)


def related(seed: int, count: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    targets = rng.normal(size=count)
    predictions = 0.6 * targets + 0.8 * rng.normal(size=count)
    return RankCorrelation().statistics(predictions, targets)


def test_intervals_of_rank_correlations_are_as_wide_as_they_vary() -> None:
    """Over data sets: the mean width, and what the score does on new ones."""
    widths = []
    for seed in range(12):
        scores = RankCorrelation().scores_of_draws(related(seed, 200))
        found = intervals_of_draws(200, scores, seed, resamples=400)
        interval = found["spearman_correlation"]
        assert interval.low < interval.score < interval.high
        widths.append(interval.high - interval.low)
    met = [spearman_of(*related(seed, 200).T) for seed in range(100, 1100)]
    low, high = np.quantile(met, [0.025, 0.975])
    assert np.mean(widths) == pytest.approx(high - low, rel=0.1)
