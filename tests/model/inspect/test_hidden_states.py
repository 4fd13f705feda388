"""Hidden states of every block in addition to the model's outputs."""

import keras
import numpy as np
import pytest

from tests.model.conftest import VOCABULARY_SIZE, small_config
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.build import build_model
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.hidden_states import average_words, with_hidden_states
from transbeam.model.seq2seq import build_seq2seq


def numpy(x) -> np.ndarray:
    return keras.ops.convert_to_numpy(x)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_each_state_is_what_the_next_block_reads(placement, randomise):
    config = small_config(num_segments=0, placement=placement)
    model = randomise(build_encoder(config, VOCABULARY_SIZE))
    generator = np.random.default_rng(0)
    inputs = {
        "token_ids": generator.integers(0, VOCABULARY_SIZE, (2, 5)).astype("int32"),
        "padding_mask": np.array([[1] * 5, [1, 1, 1, 0, 0]], "int32"),
    }
    states = with_hidden_states(model)(inputs)
    sequence_info = {"padding_mask": inputs["padding_mask"]}

    x = model.get_layer("token_embedding")(inputs["token_ids"])
    x = model.get_layer("position_embedding")(x)
    if placement == "post":
        x = model.get_layer("embeddings_norm")(x)
    np.testing.assert_allclose(states["embeddings"], x, atol=1e-6)
    for name in ("encoder_layer_0", "encoder_layer_1"):
        x = model.get_layer(name)(x, sequence_info)
        np.testing.assert_allclose(states[name], x, atol=1e-5)
    if placement == "pre":
        x = model.get_layer("final_norm")(x)
    np.testing.assert_allclose(states["sequence_output"], x, atol=1e-5)
    np.testing.assert_array_equal(
        numpy(states["sequence_output"]), numpy(model(inputs)["sequence_output"])
    )


def test_it_shares_its_weights_with_the_model_and_can_be_trained():
    model = build_model(
        small_config(num_segments=0), MaskedConfig(), vocabulary_size=VOCABULARY_SIZE
    )
    student = with_hidden_states(model)
    assert [id(w) for w in student.weights] == [id(w) for w in model.weights]
    assert {name: tuple(x.shape) for name, x in student.output.items()} == {
        "logits": (None, None, VOCABULARY_SIZE),
        "embeddings": (None, None, 16),
        "encoder_layer_0": (None, None, 16),
        "encoder_layer_1": (None, None, 16),
    }


def test_two_stacks():
    config = Seq2SeqModelConfig(
        hidden_dim=8,
        num_layers=1,
        num_decoder_layers=2,
        attention=FullAttentionConfig(num_heads=2),
    )
    model = build_seq2seq(config, VOCABULARY_SIZE)
    assert sorted(set(with_hidden_states(model).output) - set(model.output)) == [
        "decoder_embeddings",
        "decoder_layer_0",
        "decoder_layer_1",
        "encoder_embeddings",
        "encoder_layer_0",
    ]


def test_words_are_means_of_their_tokens():
    """A token of two words counts for both; a word without tokens is zero."""
    states = np.random.default_rng(0).normal(size=(2, 4, 3))
    member = np.zeros((2, 4, 3))
    member[0, [1, 2], 0] = 1  # two tokens
    member[0, 2, 1] = 1  # shares a token with the first
    member[1, 3, 2] = 1
    found = keras.ops.convert_to_numpy(average_words(states, member))
    assert found.shape == (2, 3, 3)
    np.testing.assert_allclose(found[0, 0], states[0, 1:3].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found[0, 1], states[0, 2], rtol=1e-5)
    np.testing.assert_allclose(found[1, 2], states[1, 3], rtol=1e-5)
    assert not found[0, 2].any()
    assert not found[1, :2].any()
