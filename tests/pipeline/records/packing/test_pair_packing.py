"""Two sides to fill: everything fits, nothing is lost, little stays empty."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.pipeline.records.packing import pair_packing
from transbeam.pipeline.records.packing.pair_packing import pack_pairs

WIDTH, DEPTH = 12, 9
Pairs = list[tuple[int, int]]
some_pairs = st.lists(
    st.tuples(st.integers(1, WIDTH), st.integers(1, DEPTH)), max_size=40
)


def packed(pairs: Pairs) -> list[list[int]]:
    array = np.array(pairs, np.int64).reshape(-1, 2)
    return pack_pairs(array[:, 0], array[:, 1], (WIDTH, DEPTH))


def packed_slowly(pairs: Pairs) -> list[list[int]]:
    """The rule word by word: the emptier side, then both, then the smaller first."""
    rest = list(range(len(pairs)))
    records = []
    while rest:
        record: list[int] = []
        room = [WIDTH, DEPTH]
        while True:
            choices = []
            for i in rest:
                a, b = room[0] - pairs[i][0], room[1] - pairs[i][1]
                if a >= 0 and b >= 0:
                    shares = sorted([a * DEPTH, b * WIDTH], reverse=True)
                    choices.append((shares[0], sum(shares), pairs[i], i))
            if not choices:
                break
            chosen = min(choices)[-1]
            record.append(chosen)
            rest.remove(chosen)
            room = [room[0] - pairs[chosen][0], room[1] - pairs[chosen][1]]
        records.append(record)
    return records


@given(some_pairs)
def test_equals_the_rule_word_by_word(pairs: Pairs) -> None:
    assert packed(pairs) == packed_slowly(pairs)


@given(some_pairs)
def test_fits_and_loses_nothing(pairs: Pairs) -> None:
    records = packed(pairs)
    assert sorted(i for record in records for i in record) == list(range(len(pairs)))
    for record in records:
        assert sum(pairs[i][0] for i in record) <= WIDTH
        assert sum(pairs[i][1] for i in record) <= DEPTH


@given(some_pairs)
def test_blocks_lose_nothing(pairs: Pairs) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_packing, "BLOCK_PAIRS", 7)
        records = packed(pairs)
    assert sorted(i for record in records for i in record) == list(range(len(pairs)))
    assert all(len({i // 7 for i in record}) == 1 for record in records)


def test_hardly_any_padding_where_both_sides_ask_for_as_much() -> None:
    random = np.random.default_rng(0)
    first = random.integers(4, 40, 5000)
    second = np.maximum(3, first + random.integers(-3, 4, 5000))
    records = pack_pairs(first, second, (128, 128))
    needed = max(first.sum(), second.sum()) / 128
    assert len(records) < 1.01 * needed
