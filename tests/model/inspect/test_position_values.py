"""Values of positions: those of the model itself, and of the papers' formulas."""

from dataclasses import replace

import numpy as np
import pytest
from keras import ops

from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import (
    AlibiPositionConfig,
    LearnedPositionConfig,
    LinearStretchConfig,
    NoPositionConfig,
    RelativeBiasPositionConfig,
    RopePositionConfig,
    SinusoidalPositionConfig,
)
from transbeam.configs.schema.model import DecoderConfig, EncoderConfig
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.position_values import (
    position_vectors,
    rotation_angles,
    score_biases,
    similarity_by_distance,
    without_stretch,
)
from transbeam.model.stack.stack_spec import StackSpec, stack_specs
from transbeam.model.weights.assign import variables_by_path

LENGTH = 10


def spec_of(position, *, causal=False, **options) -> StackSpec:
    keys = {
        "hidden_dim": 16,
        "max_sequence_length": 32,
        "attention": FullAttentionConfig(num_heads=2),
        "position": position,
        **options,
    }
    specs = stack_specs((DecoderConfig if causal else EncoderConfig)(**keys), seed=5)
    return specs["decoder" if causal else "encoder"]


def test_sinusoids_by_hand():
    vectors = position_vectors(spec_of(SinusoidalPositionConfig()), LENGTH)
    assert vectors.shape == (LENGTH, 16)
    place, pair = np.arange(LENGTH)[:, None], np.arange(8)
    angles = place / 10_000 ** (2 * pair / 16)
    np.testing.assert_allclose(vectors[:, ::2], np.sin(angles), atol=1e-6)
    np.testing.assert_allclose(vectors[:, 1::2], np.cos(angles), atol=1e-6)


def test_learned_positions_are_the_model_s_own():
    position = LearnedPositionConfig(offset=2)
    spec = spec_of(position)
    model = build_encoder(spec.config, 20, seed=5)
    table = ops.convert_to_numpy(
        variables_by_path(model)["position_embedding/embeddings"]
    )
    found = position_vectors(spec, LENGTH)
    np.testing.assert_array_equal(found, table[2 : 2 + LENGTH])
    trained = np.random.default_rng(0).normal(size=table.shape).astype("float32")
    found = position_vectors(spec, LENGTH, trained)
    np.testing.assert_array_equal(found, trained[2 : 2 + LENGTH])


def test_alibi_by_the_paper():
    heads = FullAttentionConfig(num_heads=8)
    biases = score_biases(spec_of(AlibiPositionConfig(), attention=heads), LENGTH)
    distance = np.abs(np.arange(LENGTH) - np.arange(LENGTH)[:, None])
    for head in range(8):
        np.testing.assert_allclose(biases[head], -distance * 2.0 ** -(head + 1))


def test_buckets_and_learned_biases_of_t5():
    position = RelativeBiasPositionConfig(num_buckets=32, max_distance=128)
    (buckets,) = score_biases(spec_of(position), 200)
    # Of the reference implementation, for keys before and after the query.
    for ahead, bucket in {0: 0, -7: 7, -8: 8, -11: 8, -12: 9, -150: 15, 1: 17}.items():
        assert buckets[160, 160 + ahead] == bucket
    (causal,) = score_biases(spec_of(position, causal=True), 200)
    assert causal[160, 160] == causal[160, 161] == 0  # a later key is masked
    assert causal[160, 145] == 15
    table = np.random.default_rng(0).normal(size=(32, 2)).astype("float32")
    biases = score_biases(spec_of(position), 200, table)
    np.testing.assert_array_equal(biases[1], table[buckets.astype(int), 1])


def test_rotations_by_the_paper():
    spec = spec_of(RopePositionConfig(base=100.0))
    place, pair = np.arange(LENGTH)[:, None], np.arange(4)
    turns = place * 100.0 ** (-2 * pair / 8)
    found = rotation_angles(spec, LENGTH)
    np.testing.assert_allclose(np.cos(found), np.cos(turns), atol=1e-5)
    np.testing.assert_allclose(np.sin(found), np.sin(turns), atol=1e-5)
    # Two vectors of ones, turned: the mean of the cosines of the turns between them.
    products = similarity_by_distance(spec, LENGTH)
    np.testing.assert_allclose(products, np.cos(turns).mean(axis=1), atol=1e-5)

    stretched = spec_of(
        RopePositionConfig(base=100.0, stretch=LinearStretchConfig(factor=2.0))
    )
    half = rotation_angles(stretched, LENGTH)
    np.testing.assert_allclose(half[::2], found[: LENGTH // 2], atol=1e-5)
    plain = rotation_angles(without_stretch(stretched), LENGTH)
    np.testing.assert_array_equal(plain, found)


def test_similarity_of_vectors_is_a_mean_over_pairs():
    spec = spec_of(SinusoidalPositionConfig())
    found = similarity_by_distance(spec, LENGTH)
    vectors = position_vectors(spec, LENGTH)
    # Of sinusoids it depends on the distance alone: 8 pairs of length 1.
    np.testing.assert_allclose(found, vectors @ vectors[0] / 8, atol=1e-5)


@pytest.mark.parametrize("position", [NoPositionConfig(), AlibiPositionConfig()])
def test_kinds_that_add_nothing_to_the_embeddings(position):
    spec = spec_of(position)
    assert position_vectors(spec, LENGTH) is None
    assert rotation_angles(spec, LENGTH) is None
    assert similarity_by_distance(spec, LENGTH) is None
    none = replace(spec, config=replace(spec.config, position=NoPositionConfig()))
    assert score_biases(none, LENGTH) is None
