"""Initializers that share one seed and draw different numbers."""

import keras
import numpy as np
import pytest
from keras import ops

from transbeam.model.base.initializers import derive_seed, seeded
from transbeam.model.layers.attention.full import MultiHeadAttention
from transbeam.model.layers.embeddings import SegmentEmbedding, TokenEmbedding
from transbeam.model.layers.feedforward import FeedForward, GatedFeedForward
from transbeam.model.layers.lm_head import VocabularyProjection
from transbeam.model.layers.patches import ClassToken, PatchEmbedding
from transbeam.model.layers.pooling import Pooling
from transbeam.model.layers.positions.learned import LearnedPositionEmbedding
from transbeam.model.layers.positions.relative_bias import RelativeBiasTable


def draw(initializer) -> np.ndarray:
    return ops.convert_to_numpy(initializer((3, 4)))


KINDS = [
    "glorot_uniform",
    keras.initializers.RandomNormal(stddev=0.5),
    keras.initializers.TruncatedNormal(stddev=0.5, seed=3),
    keras.initializers.VarianceScaling(2.0, "fan_out", "uniform"),
    keras.initializers.Orthogonal(gain=2.0),
]


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_a_layer_differ_and_stay(kind):
    query = draw(seeded(kind, 5, "query"))
    np.testing.assert_array_equal(query, draw(seeded(kind, 5, "query")))
    assert np.abs(query - draw(seeded(kind, 5, "key"))).max() > 1e-3
    assert np.abs(query - draw(seeded(kind, 6, "query"))).max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_seed_each_copy_draws_other_numbers(kind):
    first, second = draw(seeded(kind, None, "query")), draw(seeded(kind, None, "query"))
    assert np.abs(first - second).max() > 1e-3


def test_all_but_the_seed_is_copied():
    given = keras.initializers.TruncatedNormal(mean=1.0, stddev=0.5, seed=3)
    copy = seeded(given, 5, "query")
    expected = {"mean": 1.0, "stddev": 0.5, "seed": derive_seed(5, "query")}
    assert type(copy) is keras.initializers.TruncatedNormal
    assert copy.get_config() == expected
    assert given.get_config()["seed"] == 3


def test_what_draws_nothing_is_only_copied():
    assert draw(seeded("zeros", 5, "bias")).tolist() == np.zeros((3, 4)).tolist()
    constant = seeded(keras.initializers.Constant(2.5), None, "bias")
    assert draw(constant).tolist() == np.full((3, 4), 2.5).tolist()


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="glorot_uniforn"):
        seeded("glorot_uniforn", 5, "query")


@pytest.mark.parametrize(
    "layer",
    [
        TokenEmbedding(3, 2),
        SegmentEmbedding(2),
        LearnedPositionEmbedding(3),
        RelativeBiasTable(8, 2),
        PatchEmbedding(2, 4),
        ClassToken(),
        VocabularyProjection(3),
        Pooling("attention"),
        FeedForward(4, 8),
        GatedFeedForward(4, 8),
        MultiHeadAttention(4, 2),
    ],
    ids=lambda layer: layer.name,
)
def test_all_layers_have_one_default(layer):
    found = {
        name: value
        for name, value in vars(layer).items()
        if name.endswith("_initializer")
    }
    assert found
    for initializer in found.values():
        assert isinstance(initializer, keras.initializers.TruncatedNormal)
        assert (initializer.mean, initializer.stddev) == (0.0, 0.02)
