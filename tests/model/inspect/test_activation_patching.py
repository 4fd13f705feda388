"""Patched runs: identities, causality, and patches without effect."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.model.conftest import VOCABULARY_SIZE, small_config, tensorflow_only
from transbeam.configs.base.errors import ArtifactError, DataError
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import LayerNormConfig
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.base.activation_hooks import hooked
from transbeam.model.build import build_model
from transbeam.model.decoder import build_decoder
from transbeam.model.inspect.activation_patching import (
    compute_effect,
    patch_activations,
    patched_differences,
)

LAYERS, HEADS, LENGTH = 2, 4, 5
RIGHT, WRONG = 7, 9


def make_inputs(*ids: int) -> dict[str, np.ndarray]:
    ids = np.array([ids], "int32")
    return {"token_ids": ids, "padding_mask": np.ones_like(ids)}


CLEAN, CORRUPTED = make_inputs(1, 2, 3, 4, 5), make_inputs(1, 2, 8, 4, 5)


@pytest.fixture
def decoder(randomise) -> keras.Model:
    config = DecoderConfig(
        num_layers=LAYERS,
        hidden_dim=16,
        max_sequence_length=8,
        norm=LayerNormConfig(placement="pre"),
        attention=FullAttentionConfig(num_heads=HEADS),
    )
    return randomise(build_decoder(config, VOCABULARY_SIZE))


@pytest.fixture
def difference(decoder):
    def compute(inputs):
        logits = decoder(inputs)["logits"][:, -1]
        return logits[:, RIGHT] - logits[:, WRONG]

    return compute


def test_the_effect_by_hand():
    """Clean 4, corrupted -2, patched 1: half of the way."""
    assert compute_effect(1.0, 4.0, -2.0) == 0.5
    assert compute_effect(np.array([4.0, -2.0, 7.0]), 4.0, -2.0).tolist() == [1, 0, 1.5]


@pytest.mark.parametrize(
    ("ending", "axis", "number"),
    [
        ("/output", "position", LENGTH),
        ("/update", "position", LENGTH),
        ("/heads", "position", LENGTH),
        ("/heads", "head", HEADS),
    ],
)
def test_patches_from_the_same_run_are_identities(difference, ending, axis, number):
    found = patched_differences(difference, CLEAN, CLEAN, ending, axis)
    plain = float(difference(CLEAN)[0])
    for values in found.values():
        np.testing.assert_allclose(values, np.full(1 + number, plain), rtol=1e-5)


def test_block_outputs_by_position(difference):
    """Tokens before the exchanged one restore nothing, and the last one all."""
    found = patch_activations(difference, CLEAN, CORRUPTED)
    assert found.layers == ("decoder_layer_0", "decoder_layer_1")
    assert found.effects.shape == (LAYERS, LENGTH)
    np.testing.assert_allclose(found.effects[:, :2], 0.0, atol=1e-4)
    np.testing.assert_allclose(found.effects[1], [0, 0, 0, 0, 1], atol=1e-4)
    assert found.clean == float(difference(CLEAN)[0])
    assert found.corrupted == float(difference(CORRUPTED)[0])


def test_a_patch_is_the_model_with_one_activation_replaced(difference):
    """Each row of the batch is a run of its own, with one patch."""
    activations = {}

    def record(path, value):
        activations[path] = value
        return value

    with hooked(record):
        difference(CLEAN)
    path = "decoder_layer_0/self_attention/heads"
    found = patch_activations(difference, CLEAN, CORRUPTED, "/heads", "head")
    assert found.layers[0] == "decoder_layer_0/self_attention"
    assert found.effects.shape == (LAYERS, HEADS)
    for head in range(HEADS):

        def patch(name, value, head=head):
            if name != path:
                return value
            value = ops.convert_to_numpy(value).copy()
            value[:, :, head] = ops.convert_to_numpy(activations[path])[:, :, head]
            return ops.convert_to_tensor(value)

        with hooked(patch):
            patched = float(difference(CORRUPTED)[0])
        expected = compute_effect(patched, found.clean, found.corrupted)
        assert found.effects[0, head] == pytest.approx(expected, abs=1e-4)
    assert np.abs(found.effects).min() > 1e-5


def test_updates_of_one_kind_of_sublayer(difference):
    found = patch_activations(
        difference, CLEAN, CORRUPTED, "feedforward_residual/update"
    )
    assert found.layers == ("decoder_layer_0", "decoder_layer_1")
    np.testing.assert_allclose(found.effects[:, :2], 0.0, atol=1e-4)
    assert np.abs(found.effects[0, 2:]).min() > 1e-5


def test_masked_tokens_of_an_encoder(randomise):
    config = small_config(num_segments=0)
    model = randomise(build_model(config, MaskedConfig(), VOCABULARY_SIZE))

    def difference(inputs):
        logits = model(inputs)["logits"][:, 0]
        return logits[:, RIGHT] - logits[:, WRONG]

    place = {"masked_positions": np.array([[1]], "int32")}
    found = patch_activations(difference, CLEAN | place, CORRUPTED | place)
    np.testing.assert_allclose(found.effects[-1], [0, 1, 0, 0, 0], atol=1e-4)
    assert np.abs(found.effects[0]).min() > 1e-6


def test_texts_of_different_lengths(difference):
    with pytest.raises(DataError, match="clean text has 5 tokens and the corrupted"):
        patch_activations(difference, CLEAN, make_inputs(1, 2, 3, 4))


def test_texts_with_the_same_answer(difference):
    with pytest.raises(DataError, match="nothing to restore"):
        patch_activations(difference, CLEAN, CLEAN)


def test_no_such_activation(difference):
    with pytest.raises(ArtifactError, match="/nothing: the model computed no such"):
        patch_activations(difference, CLEAN, CORRUPTED, "/nothing")


@tensorflow_only
def test_a_function_that_was_traced_before_is_noticed(difference):
    import tensorflow as tf

    compiled = tf.function(difference, reduce_retracing=True)
    for rows in (1, LENGTH):
        compiled({name: np.repeat(x, rows, axis=0) for name, x in CLEAN.items()})
    with pytest.raises(ArtifactError, match="traced before"):
        patch_activations(compiled, CLEAN, CORRUPTED)


def test_patches_that_are_not_computed_with_are_noticed(decoder, difference):
    """A function that calls the model, and answers from elsewhere."""

    def deaf(inputs):
        decoder(inputs)
        with hooked(lambda path, value: value):
            return difference(inputs)

    with pytest.raises(ArtifactError, match="no patch of them changes the logits"):
        patch_activations(deaf, CLEAN, CORRUPTED)
