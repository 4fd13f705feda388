"""Numbers of heads, against values by hand and an independent computation."""

import numpy as np
import pytest

from transbeam.serving.studio.head_summaries import (
    SUMMARIES,
    pool_maps,
    summarize_heads,
)


def random_maps(heads=3, queries=7, keys=7):
    scores = np.random.default_rng(0).normal(size=(heads, queries, keys)) * 3
    shares = np.exp(scores)
    return np.float32(shares / shares.sum(axis=2, keepdims=True))


def test_values_by_hand():
    maps = np.float32([[[0.5, 0.25, 0.25], [0, 1, 0], [0.2, 0.3, 0.5]]])
    found = summarize_heads(maps, same_tokens=True)
    assert found["entropy"] == pytest.approx((1.0397 + 0 + 1.0297) / 3, abs=1e-4)
    assert found["confidence"] == pytest.approx((0.5 + 1 + 0.5) / 3)
    assert found["distance"] == pytest.approx((0.75 + 0 + 0.7) / 3)
    assert found["self"] == pytest.approx((0.5 + 1 + 0.5) / 3)
    assert found["previous"] == pytest.approx((0 + 0.3) / 2)
    assert found["next"] == pytest.approx((0.25 + 0) / 2)
    assert found["first"] == pytest.approx((0.5 + 0 + 0.2) / 3)


def test_an_independent_computation_agrees():
    maps = random_maps()
    found = summarize_heads(maps, same_tokens=True)
    for head, map in enumerate(maps.astype(np.float64)):
        rows = range(len(map))
        expected = {
            "entropy": np.mean([-sum(a * np.log(a) for a in map[i]) for i in rows]),
            "confidence": np.mean([max(map[i]) for i in rows]),
            "distance": np.mean(
                [sum(abs(i - j) * a for j, a in enumerate(map[i])) for i in rows]
            ),
            "self": np.mean([map[i, i] for i in rows]),
            "previous": np.mean([map[i, i - 1] for i in rows[1:]]),
            "next": np.mean([map[i, i + 1] for i in rows[:-1]]),
            "first": np.mean([map[i, 0] for i in rows]),
        }
        assert expected.keys() == SUMMARIES.keys() == found.keys()
        for name, value in expected.items():
            assert found[name][head] == pytest.approx(value, rel=1e-5)


def test_cross_attention_has_no_distance():
    found = summarize_heads(random_maps(queries=4), same_tokens=False)
    assert [name for name, values in found.items() if values is None] == [
        "distance",
        "self",
        "previous",
        "next",
    ]


def test_a_single_token_has_no_neighbor():
    found = summarize_heads(np.ones((2, 1, 1), np.float32), same_tokens=True)
    assert found["entropy"].tolist() == [0, 0]
    assert found["previous"] is found["next"] is None


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
