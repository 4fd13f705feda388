"""Differences of attention maps, against plain loops."""

from dataclasses import replace

import numpy as np
import pytest

from transbeam.serving.studio.described_tokens import DescribedToken
from transbeam.serving.studio.head_differences import (
    head_differences,
    pool_differences,
    total_variation,
    why_no_differences,
)
from transbeam.serving.studio.inspected_model import Inspection, MapGroup, TokenRow


def random_maps(seed, heads=3, queries=6, keys=5):
    shares = np.random.default_rng(seed).dirichlet(np.ones(keys), size=(heads, queries))
    return shares.astype(np.float16)


def inspection(pieces="ab", layers=2, heads=3, name="attention"):
    tokens = [DescribedToken(1, piece, 0, 0, 1, 0, False) for piece in pieces]
    maps = [random_maps(0, heads, len(pieces), len(pieces)) for _ in range(layers)]
    group = MapGroup(name, 0, 0, [str(n) for n in range(layers)], maps, [])
    return Inspection({}, [TokenRow("text", [pieces], tokens)], [group], False, 9)


def test_total_variation_is_that_of_each_query():
    one, other = random_maps(1), random_maps(2)
    found = total_variation(one, other)
    for head in range(3):
        pairs = zip(one[head].astype(float), other[head].astype(float), strict=True)
        expected = np.mean([abs(a - b).sum() / 2 for a, b in pairs])
        assert found[head] == pytest.approx(expected, abs=1e-3)
    assert total_variation(one, one).tolist() == [0, 0, 0]
    group = inspection().groups[0]
    assert head_differences(group, group)["layers"] == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("shape", [(2, 64, 64), (2, 65, 65), (2, 130, 7), (1, 1, 1)])
def test_small_differences_keep_every_extreme_with_its_sign(shape):
    differences = np.random.default_rng(3).normal(size=shape).astype(np.float16)
    small = pool_differences(differences, 64)
    step = -(-max(shape[1:]) // 64)
    for head, row, column in np.ndindex(small.shape):
        square = differences[
            head, row * step : (row + 1) * step, column * step : (column + 1) * step
        ].ravel()
        found = small[head, row, column]
        assert found in square
        assert abs(found) == abs(square).max()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"pieces": "abc"}, "2 and 3"),
        ({"pieces": "ac"}, "other tokens"),
        ({"heads": 4}, "2 layers of 3 heads, and 2 layers of 4 heads"),
        ({"layers": 1}, "2 layers of 3 heads, and 1 layer of 3 heads"),
        ({"name": "encoder_attention"}, "other kinds of attention"),
    ],
)
def test_why_there_are_no_differences(changes, words):
    reason = why_no_differences(inspection(), inspection(**changes))
    assert reason is None if words is None else words in reason


def test_rows_of_both_sides_are_compared():
    one = inspection()
    rows = [*one.rows, *inspection("abc").rows]
    other = replace(one, rows=[*one.rows, *inspection("abd").rows])
    reason = why_no_differences(replace(one, rows=rows), other)
    assert reason == "they read other tokens"
