"""Counts of the work of kinds of attention, by hand."""

import pytest

from transbeam.configs.schema.attention import KernelAttentionConfig
from transbeam.model.cost.attention import AttentionCost, attention_cost


@pytest.mark.parametrize(
    ("feature_map", "sizes", "width"),
    [("softmax", 2, 8), ("relu", 1, 8), ("elu", 1, 4)],
)
def test_a_decoder_s_features_by_hand(feature_map, sizes, width):
    """Two heads of width 4 in two chunks of 128; sums are of values and a one."""
    attention = KernelAttentionConfig(
        num_heads=2, num_features=8, feature_map=feature_map
    )
    features, pairs = (2 + 2) * 256 * width, 2 * 2 * 128 * 128
    assert attention_cost(attention, 4, 256, causal=True) == AttentionCost(
        scores=0,
        products=features * (4 + 1) + pairs * (width + 4 + 1),
        drawn_products=0 if feature_map == "elu" else features * 4,
        features=features * sizes,
        # Logarithms are added, and their exponential taken, for each.
        pairs=pairs if feature_map == "softmax" else 0,
        kept=features * sizes,
    )


def test_an_encoder_s_features_are_never_compared():
    attention = KernelAttentionConfig(num_heads=2, num_features=8)
    features = (2 + 2) * 256 * 8
    assert attention_cost(attention, 4, 256, causal=False) == AttentionCost(
        scores=0,
        products=features * (4 + 1),
        drawn_products=features * 4,
        features=features,
        kept=features,
    )
