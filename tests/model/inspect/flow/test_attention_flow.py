"""Attention flow: the worked example, linear programs, and properties of flows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.flow.attention_flow import (
    attention_flow,
    divide_by_receptive_field,
    normalize_rows,
)
from transbeam.model.inspect.flow.layered_max_flow import LayeredNetwork

FIRST = (np.array([[0.8, 0.2], [0.4, 0.6]]) + np.eye(2)) / 2
SECOND = (np.array([[0.1, 0.9], [0.5, 0.5]]) + np.eye(2)) / 2


def random_maps(
    layers: int, length: int, seed: int, sharpness: float = 3, causal: bool = False
) -> np.ndarray:
    """Attention with residual connections: (layers, length, length)."""
    scores = np.random.default_rng(seed).normal(size=(layers, 2, length, length))
    scores *= sharpness
    if causal:
        scores = np.where(np.tri(length) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return (weights.mean(axis=1) + np.eye(length)) / 2


def solve_program(mixed: np.ndarray, query: int, key: int) -> float:
    """Maximum flow as a linear program, from the definition."""
    layers, length, _ = mixed.shape
    # One variable per edge: layer, start, end. The flow into the key is largest.
    capacity = mixed[::-1].copy()  # from the last layer to the input
    capacity[0, np.arange(length) != query] = 0
    gain = np.zeros_like(capacity)
    gain[-1, :, key] = -1
    kept = np.zeros(((layers - 1) * length, capacity.size))
    for row, (layer, node) in enumerate(np.ndindex(layers - 1, length)):
        conserved = np.zeros_like(capacity)
        conserved[layer, :, node] += 1
        conserved[layer + 1, node, :] -= 1
        kept[row] = conserved.ravel()
    found = linprog(
        gain.ravel(),
        A_eq=kept if len(kept) else None,
        b_eq=np.zeros(len(kept)) if len(kept) else None,
        bounds=np.stack([np.zeros(capacity.size), capacity.ravel()], axis=1),
    )
    return -found.fun


def test_worked_example():
    flow = attention_flow(np.stack([FIRST, SECOND]))
    np.testing.assert_allclose(flow, [[0.75, 0.55], [0.45, 0.85]], atol=1e-12)
    shares = normalize_rows(flow)
    np.testing.assert_allclose(shares, [[0.577, 0.423], [0.346, 0.654]], atol=5e-4)


def test_the_layers_in_their_order():
    """The other order gives other numbers."""
    turned = attention_flow(np.stack([SECOND, FIRST]))
    assert np.abs(turned - [[0.75, 0.55], [0.45, 0.85]]).max() > 0.05


def test_one_layer_is_its_attention():
    np.testing.assert_array_equal(attention_flow(FIRST[None]), FIRST)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("layers", [2, 3, 4, 7])
def test_against_linear_programs(layers, causal):
    for seed, sharpness in enumerate((0.5, 3, 12)):
        mixed = random_maps(layers, 5, seed, sharpness, causal)
        expected = [
            [solve_program(mixed, query, key) for key in range(5)] for query in range(5)
        ]
        np.testing.assert_allclose(attention_flow(mixed), expected, atol=1e-7)


@settings(max_examples=30)
@given(
    st.integers(1, 6),
    st.integers(1, 7),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.5, 3.0, 20.0]),
    st.booleans(),
)
def test_properties(layers, length, seed, sharpness, causal):
    mixed = random_maps(layers, length, seed, sharpness, causal)
    flow = attention_flow(mixed)
    rollout = np.eye(length)
    for layer in mixed:
        rollout = layer @ rollout
    # Rollout is a flow of its own, and no flow exceeds the edges of either end.
    assert (flow >= rollout - 1e-9).all()
    assert (flow <= np.minimum(1, mixed[0].sum(axis=0)) + 1e-9).all()
    if causal:
        assert not np.triu(flow, 1).any()
    # Names of positions do not matter.
    order = np.random.default_rng(seed).permutation(length)
    renamed = attention_flow(mixed[:, order][:, :, order])
    np.testing.assert_allclose(renamed, flow[order][:, order], atol=2e-9)


def test_flow_is_taken_back():
    """The first path uses an edge that the maximum does without."""
    network = LayeredNetwork(np.array([[[1.0, 1.0], [1.0, 0.0]]]))
    assert network.max_flow(np.array([1.0, 1.0]), np.array([1.0, 1.0])) == 2


def test_a_network_is_not_changed_by_a_search():
    mixed = random_maps(5, 6, 0)
    network = LayeredNetwork(mixed[1:-1])
    first = network.max_flow(mixed[0, 0], mixed[-1, 0])
    network.max_flow(mixed[0, 3], mixed[-1, 1])
    assert network.max_flow(mixed[0, 0], mixed[-1, 0]) == first


def test_identity_passes_nothing_on():
    np.testing.assert_array_equal(attention_flow(np.stack([np.eye(3)] * 4)), np.eye(3))


def test_uniform_attention_of_many_layers_is_uniform():
    mixed = np.stack([(np.full((16, 16), 1 / 16) + np.eye(16)) / 2] * 12)
    np.testing.assert_allclose(attention_flow(mixed), np.ones((16, 16)), atol=1e-9)


def test_longest_text():
    mixed = random_maps(12, 64, 0)
    flow = attention_flow(mixed)
    # So many layers are limited by the edges into the input tokens only.
    expected = np.broadcast_to(np.minimum(1, mixed[0].sum(axis=0)), (64, 64))
    np.testing.assert_allclose(flow, expected, atol=1e-9)


def test_longer_texts_are_refused_with_the_reason():
    with pytest.raises(ConfigError, match=r"65 tokens.*4,225 pairs.*up to 64"):
        attention_flow(np.stack([np.eye(65)] * 2))


def test_receptive_field():
    """Even attention is no preference: each token passes the first one on."""
    visible = np.tri(4, dtype=bool)
    even = normalize_rows(visible.astype(float))
    found = divide_by_receptive_field(even, visible)
    np.testing.assert_allclose(found[3], np.array([1 / 4, 1 / 3, 1 / 2, 1]) * 12 / 25)
    # A text that goes on changes nothing for its first tokens.
    longer = divide_by_receptive_field(normalize_rows(np.tri(6)), np.tri(6, dtype=bool))
    np.testing.assert_allclose(longer[:4, :4], found)


def test_receptive_field_of_a_bidirectional_model_changes_nothing():
    weights = normalize_rows(np.random.default_rng(0).random((5, 5)))
    found = divide_by_receptive_field(weights, np.ones((5, 5), bool))
    np.testing.assert_allclose(found, weights)
