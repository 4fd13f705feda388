"""The encoder as a whole: inputs, weights, seeds, padding."""

import keras
import numpy as np
import pytest

from tests.model.compiling import compiled_on_jax
from tests.model.conftest import VOCABULARY_SIZE, small_config
from transbeam.configs.schema.block import (
    NormalInitializerConfig,
    SinusoidalPositionConfig,
)
from transbeam.model.encoder import build_encoder

TOKENS = np.random.default_rng(0).integers(0, VOCABULARY_SIZE, (2, 6)).astype("int32")


def batch(config, packed: bool = False) -> dict[str, np.ndarray]:
    inputs = {"token_ids": TOKENS}
    if packed:
        inputs["document_ids"] = np.array([[1, 1, 1, 2, 2, 2], [1, 1, 1, 1, 0, 0]])
        inputs["position_ids"] = np.array([[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 0, 0]])
    else:
        inputs["padding_mask"] = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    if config.num_segments:
        inputs["segment_ids"] = np.array([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 0]])
    return {name: array.astype("int32") for name, array in inputs.items()}


def vectors(model: keras.Model, inputs: dict[str, np.ndarray]) -> np.ndarray:
    return keras.ops.convert_to_numpy(compiled_on_jax(model)(inputs)["sequence_output"])


def test_weight_paths_are_part_of_the_interface():
    encoder = build_encoder(small_config(num_layers=1), VOCABULARY_SIZE)
    assert {w.path: tuple(w.shape) for w in encoder.weights} == {
        "token_embedding/embeddings": (40, 16),
        "position_embedding/embeddings": (20, 16),
        "segment_embedding/embeddings": (2, 16),
        "embeddings_norm/gamma": (16,),
        "embeddings_norm/beta": (16,),
        "encoder_layer_0/self_attention/query/kernel": (16, 16),
        "encoder_layer_0/self_attention/query/bias": (16,),
        "encoder_layer_0/self_attention/key/kernel": (16, 16),
        "encoder_layer_0/self_attention/key/bias": (16,),
        "encoder_layer_0/self_attention/value/kernel": (16, 16),
        "encoder_layer_0/self_attention/value/bias": (16,),
        "encoder_layer_0/self_attention/output/kernel": (16, 16),
        "encoder_layer_0/self_attention/output/bias": (16,),
        "encoder_layer_0/self_attention_norm/gamma": (16,),
        "encoder_layer_0/self_attention_norm/beta": (16,),
        "encoder_layer_0/feedforward/intermediate/kernel": (16, 24),
        "encoder_layer_0/feedforward/intermediate/bias": (24,),
        "encoder_layer_0/feedforward/output/kernel": (24, 16),
        "encoder_layer_0/feedforward/output/bias": (16,),
        "encoder_layer_0/feedforward_norm/gamma": (16,),
        "encoder_layer_0/feedforward_norm/beta": (16,),
    }


def test_pre_norm_ends_with_the_norm_that_post_norm_begins_with():
    config = small_config(
        num_layers=1, num_segments=0, position=SinusoidalPositionConfig()
    )
    post = {w.path for w in build_encoder(config, VOCABULARY_SIZE).weights}
    config = small_config(
        num_layers=1,
        num_segments=0,
        position=SinusoidalPositionConfig(),
        placement="pre",
    )
    pre = {w.path for w in build_encoder(config, VOCABULARY_SIZE).weights}
    assert post - pre == {"embeddings_norm/gamma", "embeddings_norm/beta"}
    assert pre - post == {"final_norm/gamma", "final_norm/beta"}
    assert "token_embedding/embeddings" in pre
    assert not any("position" in path or "segment" in path for path in pre)


@pytest.mark.parametrize("num_segments", [0, 2])
def test_inputs_by_name(num_segments):
    config = small_config(num_segments=num_segments)
    segments = {"segment_ids"} if num_segments else set()
    plain = build_encoder(config, VOCABULARY_SIZE)
    packed = build_encoder(config, VOCABULARY_SIZE, packed=True)
    assert set(plain.input) == {"token_ids", "padding_mask"} | segments
    assert set(packed.input) == {"token_ids", "document_ids", "position_ids"} | segments
    for tensor in (*plain.input.values(), *packed.input.values()):
        assert tensor.shape == (None, None)
        assert tensor.dtype == "int32"
    assert plain.output["sequence_output"].shape == (None, None, 16)


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_what_stands_in_the_padding_does_not_matter(placement, randomise):
    config = small_config(placement=placement)
    encoder = randomise(build_encoder(config, VOCABULARY_SIZE))
    inputs = batch(config)
    other = {**inputs, "token_ids": inputs["token_ids"].copy()}
    other["token_ids"][1, 4:] = (other["token_ids"][1, 4:] + 7) % VOCABULARY_SIZE
    before, after = vectors(encoder, inputs), vectors(encoder, other)

    np.testing.assert_allclose(before[0], after[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(before[1, :4], after[1, :4], rtol=0, atol=1e-6)
    assert np.abs(before[1, 4:] - after[1, 4:]).max() > 0.1


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_padding_and_all_are_finite_in_every_policy(policy, config, randomise):
    encoder = randomise(
        build_encoder(config, VOCABULARY_SIZE, packed=True, dtype=policy)
    )
    outputs = vectors(encoder, batch(config, packed=True))
    assert outputs.dtype.name == policy.removeprefix("mixed_")
    assert np.isfinite(outputs.astype("float32")).all()


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_packed_weights_load_into_the_plain_graph(placement, randomise, tmp_path):
    config = small_config(placement=placement)
    packed = randomise(build_encoder(config, VOCABULARY_SIZE, packed=True))
    plain = build_encoder(config, VOCABULARY_SIZE, seed=1)
    assert [w.path for w in packed.weights] == [w.path for w in plain.weights]

    packed.save_weights(tmp_path / "packed.weights.h5")
    plain.load_weights(tmp_path / "packed.weights.h5")
    for here, there in zip(packed.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("packed", [False, True])
def test_saved_and_loaded_it_answers_the_same(packed, config, randomise, tmp_path):
    encoder = randomise(build_encoder(config, VOCABULARY_SIZE, packed=packed))
    encoder.save(tmp_path / "encoder.keras")
    copy = keras.saving.load_model(tmp_path / "encoder.keras")
    inputs = batch(config, packed)
    np.testing.assert_array_equal(vectors(copy, inputs), vectors(encoder, inputs))
    assert [w.path for w in copy.weights] == [w.path for w in encoder.weights]


def test_the_seed_decides_the_weights(config):
    first, again, other, free, freer = (
        build_encoder(config, VOCABULARY_SIZE, seed=seed).get_weights()
        for seed in (1, 1, 2, None, None)
    )
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])
    assert not np.array_equal(free[0], freer[0])


def test_no_two_kernels_start_alike(config):
    weights = build_encoder(config, VOCABULARY_SIZE).weights
    drawn = [w.numpy() for w in weights if w.path.endswith(("kernel", "embeddings"))]
    # Compared by their first ten numbers: equal seeds show in unequal shapes too.
    assert len({tuple(w.ravel()[:10]) for w in drawn}) == len(drawn)


def test_initial_values():
    config = small_config(
        hidden_dim=64, initializer=NormalInitializerConfig(stddev=0.05)
    )
    for weight in build_encoder(config, 500).weights:
        values = weight.numpy()
        if weight.path.endswith("gamma"):
            assert (values == 1).all()
        elif weight.path.endswith(("bias", "beta")):
            assert (values == 0).all()
        else:  # cut at two deviations, which leaves 0.88 of the first one
            assert np.abs(values).max() <= 0.1
            if values.size > 1000:
                np.testing.assert_allclose(values.std(), 0.05 * 0.88, rtol=0.06)


def test_dropout_acts_in_training_only_and_follows_the_seed():
    config = small_config(num_layers=1, dropout=0.3)
    inputs = batch(config)
    weights = build_encoder(config, VOCABULARY_SIZE).get_weights()

    def outputs(seed, **options):
        encoder = build_encoder(config, VOCABULARY_SIZE, seed=seed)
        encoder.set_weights(weights)
        return np.asarray(encoder(inputs, **options)["sequence_output"])

    trained = outputs(1, training=True)
    np.testing.assert_array_equal(trained, outputs(1, training=True))
    assert np.abs(trained - outputs(2, training=True)).max() > 0.01
    np.testing.assert_array_equal(outputs(1), outputs(2))
