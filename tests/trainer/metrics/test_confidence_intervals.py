import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.configs.base.errors import DataError
from transbeam.trainer.metrics.confidence_intervals import (
    Interval,
    differences,
    intervals,
)
from transbeam.trainer.metrics.language_modeling import Perplexity, TokenAccuracy


def right(hits: int, of: int) -> np.ndarray:
    """Accuracy's statistics of questions of which the first are answered right."""
    return TokenAccuracy().statistics(
        (np.arange(of) < hits).astype(int), np.ones(of, int)
    )


def binomial_quantile(count: int, chance: float, share: float) -> int:
    """The least number of hits that is exceeded at most 1 − share of the time."""
    below = 0.0
    for hits in range(count + 1):
        below += math.comb(count, hits) * chance**hits * (1 - chance) ** (count - hits)
        if below >= share:
            return hits
    return count


@pytest.mark.parametrize(("hits", "of"), [(31, 40), (12, 40), (90, 100)])
def test_accuracy_has_the_binomial_quantiles(hits, of):
    # A resample's hits are binomial, so the exact ends are known.
    found = intervals(right(hits, of), TokenAccuracy().scores, seed=0, resamples=20_000)
    low, high = (binomial_quantile(of, hits / of, q) / of for q in (0.025, 0.975))
    assert found == {"accuracy": Interval(hits / of, low, high)}


def test_confidence_widens():
    statistics = right(70, 100)
    narrow, wide = (
        intervals(statistics, TokenAccuracy().scores, 0, confidence=confidence)[
            "accuracy"
        ]
        for confidence in (0.5, 0.99)
    )
    assert wide.low < narrow.low < narrow.high < wide.high


def test_every_resample_draws_as_many_units_as_there_are():
    # More units than are drawn at once for so many resamples.
    statistics = np.ones((50_000, 1))

    def scores(sums: np.ndarray) -> dict[str, np.ndarray]:
        if sums.ndim == 2:
            assert sums.shape == (100, 1)
            assert (sums == 50_000).all()
        return {"units": sums[..., 0]}

    found = intervals(statistics, scores, seed=0, resamples=100)
    assert found == {"units": Interval(50_000, 50_000, 50_000)}


def test_each_unit_is_drawn_as_often_as_any_other():
    # Units 0 to 99 mark themselves: over 2,000 resamples each is drawn about 2,000
    # times, with a standard deviation of 45.
    drawn = []
    intervals(
        np.eye(100),
        lambda sums: drawn.append(sums) or {"all": sums.sum(axis=-1)},
        seed=5,
        resamples=2000,
    )
    counts = drawn[1]
    assert (counts.sum(axis=1) == 100).all()
    np.testing.assert_allclose(counts.sum(axis=0), 2000, atol=5 * 45)
    # As of the multinomial: each once on average, with a variance of 0.99.
    assert counts.var() == pytest.approx(0.99, abs=0.02)


@given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 2**32))
def test_ends_are_in_order_and_reachable(of, hits, seed):
    hits = min(hits, of)
    found = intervals(right(hits, of), TokenAccuracy().scores, seed, resamples=50)
    score, low, high = found["accuracy"]
    assert 0 <= low <= high <= 1
    if hits in (0, of):
        assert low == score == high


def test_a_single_unit_says_nothing_about_others():
    statistics = Perplexity().statistics([3.0], [2])
    found = intervals(statistics, Perplexity().scores, seed=0)["nats_per_token"]
    assert found == Interval(1.5, 1.5, 1.5)


def test_resamples_without_a_score_are_left_out():
    # One of three records has targets: 30% of resamples have none.
    statistics = Perplexity().statistics([0.0, 4.0, 0.0], [0, 2, 0])
    found = intervals(statistics, Perplexity().scores, seed=0)["nats_per_token"]
    assert found == Interval(2.0, 2.0, 2.0)


def test_what_has_no_score_has_no_interval():
    statistics = Perplexity().statistics([np.nan, 1.0], [1, 1])
    found = intervals(statistics, Perplexity().scores, seed=0)["perplexity"]
    assert np.isnan(found).all()
    nothing = intervals(np.zeros((3, 2)), TokenAccuracy().scores, seed=0)["accuracy"]
    assert np.isnan(nothing).all()


def test_nothing_to_score_is_refused():
    with pytest.raises(DataError, match="nothing to score"):
        intervals(np.zeros((0, 2)), TokenAccuracy().scores, seed=0)


def test_a_system_does_not_differ_from_itself():
    statistics = right(60, 90)
    found = differences(statistics, statistics, TokenAccuracy().scores, seed=0)
    assert found == {"accuracy": Interval(0, 0, 0)}


def test_pairs_find_what_intervals_alone_do_not():
    # The better system is right wherever the other one is, and on 6 of 200 more.
    better, worse = right(126, 200), right(120, 200)
    apart = [
        intervals(statistics, TokenAccuracy().scores, seed=0)["accuracy"]
        for statistics in (better, worse)
    ]
    assert apart[1].high > apart[0].low
    found = differences(better, worse, TokenAccuracy().scores, seed=0)["accuracy"]
    assert found.score == pytest.approx(0.03)
    # The difference's hits are binomial(200, 0.03).
    assert found.low == pytest.approx(
        binomial_quantile(200, 0.03, 0.025) / 200, abs=5e-3
    )
    assert found.low > 0


def test_differences_have_a_sign():
    better, worse = right(90, 100), right(50, 100)
    forth = differences(better, worse, TokenAccuracy().scores, seed=0)["accuracy"]
    back = differences(worse, better, TokenAccuracy().scores, seed=0)["accuracy"]
    assert forth.score == -back.score == pytest.approx(0.4)
    assert forth.low == pytest.approx(-back.high)


def test_differences_are_of_the_same_units():
    with pytest.raises(ValueError, match=r"\(4, 2\) and \(5, 2\)"):
        differences(right(1, 4), right(1, 5), TokenAccuracy().scores, seed=0)
