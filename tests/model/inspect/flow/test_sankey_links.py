"""Links of a Sankey diagram: threshold, order, the largest of each query."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.flow.sankey_links import sankey_links

MAPS = np.array(
    [[[0.5, 0.3, 0.2], [0.25, 0.5, 0.25], [0.1, 0.1, 0.8]], np.eye(3)], "float32"
)


def rows(links) -> list[tuple]:
    return list(
        zip(
            links.layer.tolist(),
            links.query.tolist(),
            links.key.tolist(),
            links.weight.astype(float).round(3).tolist(),
            strict=True,
        )
    )


def test_links_above_a_threshold():
    assert rows(sankey_links(MAPS, 0.25)) == [
        (0, 0, 0, 0.5),
        (0, 0, 1, 0.3),
        (0, 1, 0, 0.25),
        (0, 1, 1, 0.5),
        (0, 1, 2, 0.25),
        (0, 2, 2, 0.8),
        (1, 0, 0, 1.0),
        (1, 1, 1, 1.0),
        (1, 2, 2, 1.0),
    ]


def test_of_equal_weights_the_first_keys_remain():
    assert [row[:3] for row in rows(sankey_links(MAPS[:1], 0.1, top_k=2))] == [
        (0, 0, 0),
        (0, 0, 1),
        (0, 1, 0),
        (0, 1, 1),
        (0, 2, 0),
        (0, 2, 2),
    ]


def test_types():
    links = sankey_links(MAPS, 0.9)
    assert {links.layer.dtype, links.query.dtype, links.key.dtype} == {
        np.dtype(np.int32)
    }
    assert links.weight.dtype == np.float32
    assert len(links) == 3


def test_none_is_no_error():
    assert len(sankey_links(MAPS[:1], 0.9)) == 0


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 1), st.integers(1, 4))
def test_against_a_loop(seed, threshold, top_k):
    maps = np.random.default_rng(seed).dirichlet(np.ones(4), (2, 4)).astype("float32")
    expected = []
    for layer, query in np.ndindex(2, 4):
        best = sorted(range(4), key=lambda key: (-maps[layer, query, key], key))
        expected += [
            (layer, query, key)
            for key in sorted(best[:top_k])
            if maps[layer, query, key] >= np.float32(threshold)
        ]
    assert [row[:3] for row in rows(sankey_links(maps, threshold, top_k))] == expected


@pytest.mark.parametrize("threshold", [0, -0.1, 1.5, float("nan")])
def test_thresholds_out_of_range(threshold):
    with pytest.raises(ConfigError, match="threshold"):
        sankey_links(MAPS, threshold)


def test_fewer_links_than_one():
    with pytest.raises(ConfigError, match="top_k=0"):
        sankey_links(MAPS, 0.1, top_k=0)
