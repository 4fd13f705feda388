"""Bytes are shared out without a rest."""

from hypothesis import given
from hypothesis import strategies as st

from transbeam.pipeline.accounting.byte_accounting import shared_out


@given(
    total=st.integers(0, 10**12),
    weights=st.lists(st.integers(0, 10**9), min_size=1).filter(any),
)
def test_shares_add_up_and_are_in_proportion(total: int, weights: list[int]) -> None:
    shares = shared_out(total, weights)
    assert sum(shares) == total
    exact = [total * weight / sum(weights) for weight in weights]
    for share, wanted, weight in zip(shares, exact, weights, strict=True):
        assert abs(share - wanted) <= 1 + wanted * 1e-9
        assert weight or not share
