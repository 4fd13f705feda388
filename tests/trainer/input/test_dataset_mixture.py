"""Streams take turns by their shares, in an order that can be entered anywhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transbeam.trainer.input.dataset_mixture import DatasetMixture


def order(turns: DatasetMixture, batch: int, count: int) -> list[int]:
    return [int(one) for one in turns.order(batch).take(count).as_numpy_iterator()]


@settings(max_examples=8)
@given(
    rates=st.lists(st.floats(0.01, 20), min_size=1, max_size=4),
    entered=st.integers(0, 60),
    seed=st.integers(0, 5),
)
def test_entering_is_arithmetic(rates: list[float], entered: int, seed: int) -> None:
    if sum(rates) < 1:
        rates = [rate / sum(rates) for rate in rates]
    turns = DatasetMixture(tuple(rates), seed)
    whole = order(turns, 0, entered + 20)
    assert order(turns, entered, 20) == whole[entered:]
    had = np.bincount(whole[:entered], minlength=len(rates))
    assert turns.before(entered).tolist() == had.tolist()


@pytest.mark.parametrize("batch", [10**3, 10**6, 10**9])
def test_nobody_is_ever_more_than_a_cycle_behind(batch: int) -> None:
    shares = np.array([0.7, 0.2999, 0.0001])
    before = DatasetMixture.by_share([7, 2.999, 0.001], 200.0, seed=0).before(batch)
    assert before.sum() == batch
    np.testing.assert_allclose(before, shares * batch, atol=200)


def test_each_cycle_has_the_same_turns_in_an_order_of_its_own() -> None:
    turns = DatasetMixture((30.0, 10.0), seed=3)
    cycles = np.array(order(turns, 0, 120)).reshape(3, 40)
    assert (cycles.sum(axis=1) == 10).all()
    assert len({tuple(cycle) for cycle in cycles}) == 3
    assert order(DatasetMixture((30.0, 10.0), seed=4), 0, 40) != cycles[0].tolist()


def test_a_rare_stream_has_its_turns_in_few_cycles() -> None:
    found = order(DatasetMixture((9.9, 0.1), seed=0), 0, 1000)
    apart = np.diff(np.flatnonzero(found))
    # A turn in ten cycles of ten, a turn more or less, anywhere within its cycle.
    assert len(apart) == 9
    assert (np.abs(apart - 100) < 25).all()


def test_a_cycle_is_an_epoch_but_not_too_long_to_stir() -> None:
    assert DatasetMixture.by_share([1, 3], 8, 0).rates == (2, 6)
    assert DatasetMixture.by_share([1, 3], 0.2, 0).rates == (0.25, 0.75)
    assert DatasetMixture.by_share([1, 3], 1e9, 0).rates == (250, 750)
