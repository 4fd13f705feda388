"""Numbers of heads, against an independent computation from their maps."""

import numpy as np
import pytest

from transbeam.serving.studio.head_summaries import (
    SUMMARIES,
    pool_maps,
    summarize_heads,
)


def summaries_of(maps, *, same_tokens=True):
    """The summaries of maps (H, T, S) of one text, one weight after the other."""
    found = {}
    for map in maps.astype(np.float64):
        rows = range(len(map))
        values = {
            "entropy": [-sum(a * np.log(a) for a in map[i] if a > 0) for i in rows],
            "confidence": [max(map[i]) for i in rows],
            "first": [map[i, 0] for i in rows],
        }
        if same_tokens:
            last = len(map) - 1
            values |= {
                "distance": [
                    sum(abs(i - j) * a for j, a in enumerate(map[i])) for i in rows
                ],
                "self": [map[i, i] for i in rows],
                "previous": [map[i, i - 1] if i else 0 for i in rows],
                "next": [map[i, i + 1] if i < last else 0 for i in rows],
            }
        for name, each in values.items():
            found.setdefault(name, []).append(np.mean(each))
    return found


def test_pairs_by_hand():
    maps = np.float32(
        [[[0.4, 0.3, 0.2, 0.1], [0, 1, 0, 0], [0.1, 0.2, 0.3, 0.4], [0, 0, 0.5, 0.5]]]
    )
    sums = {"queries": [4.0]}
    found = summarize_heads(sums, maps, [0, 0, None, 1])
    assert found["first_to_second"] == pytest.approx((0.1 + 0) / 2)
    assert found["second_to_first"] == pytest.approx(0)
    one = summarize_heads(sums, maps, [0, 0, None, 0])
    assert one["first_to_second"] is one["second_to_first"] is None
    assert found.keys() == SUMMARIES.keys()


@pytest.mark.parametrize("shape", [(2, 64, 64), (2, 65, 65), (2, 500, 30), (1, 1, 1)])
def test_small_maps_keep_every_maximum(shape):
    maps = np.random.default_rng(1).random(shape).astype(np.float16)
    small = pool_maps(maps, 64)
    step = -(-max(shape[1:]) // 64)
    assert small.shape == (shape[0], *(-(-size // step) for size in shape[1:]))
    for row, column in np.ndindex(small.shape[1:]):
        square = maps[
            :, row * step : (row + 1) * step, column * step : (column + 1) * step
        ]
        assert (small[:, row, column] == square.max(axis=(1, 2))).all()
