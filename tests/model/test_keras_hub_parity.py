"""KerasHub's BERT on the same weights: the same answers and the same gradients."""

import keras
import keras_hub
import numpy as np
import pytest

from tests.model.conftest import VOCABULARY_SIZE, small_config, tensorflow_only
from tests.model.gradients import value_and_gradients
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.build import build_model
from transbeam.model.encoder import build_encoder
from transbeam.model.layers.activations import gelu_tanh

pytestmark = tensorflow_only
CONFIG = small_config(activation="gelu_tanh")  # what KerasHub's BERT has built in


@pytest.fixture
def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "token_ids": rng.integers(0, VOCABULARY_SIZE, (3, 9)).astype("int32"),
        "segment_ids": rng.integers(0, 2, (3, 9)).astype("int32"),
        "padding_mask": (np.arange(9) < [[9], [6], [2]]).astype("int32"),
    }


@pytest.fixture
def backbone(randomise) -> keras.Model:
    return randomise(
        keras_hub.models.BertBackbone(
            vocabulary_size=VOCABULARY_SIZE,
            num_layers=CONFIG.num_layers,
            num_heads=CONFIG.attention.num_heads,
            hidden_dim=CONFIG.hidden_dim,
            intermediate_dim=CONFIG.feedforward.intermediate_dim,
            dropout=0.0,
            max_sequence_length=CONFIG.max_sequence_length,
            num_segments=CONFIG.num_segments,
        )
    )


def their_name(path: str) -> str:
    """Returns KerasHub's path of our weight `path`."""
    for ours, theirs in (
        ("position_embedding/embeddings", "position_embedding/embeddings"),
        ("embeddings_norm", "embeddings_layer_norm"),
        ("encoder_layer_", "transformer_layer_"),
        ("self_attention_norm", "self_attention_layer_norm"),
        ("self_attention/output", "self_attention_layer/attention_output"),
        ("self_attention/", "self_attention_layer/"),
        ("feedforward_norm", "feedforward_layer_norm"),
        ("feedforward/intermediate", "feedforward_intermediate_dense"),
        ("feedforward/output", "feedforward_output_dense"),
        ("head_dense", "mlm_head/intermediate_dense"),
        ("head_norm", "mlm_head/intermediate_layer_norm"),
        ("head_bias/bias", "mlm_head/output_bias"),
    ):
        path = path.replace(ours, theirs)
    return path


def by_name(model: keras.Model, arrays: list) -> dict[str, np.ndarray]:
    return {w.path: a for w, a in zip(model.trainable_weights, arrays, strict=True)}


def copy_weights(theirs: keras.Model, ours: keras.Model) -> None:
    arrays = by_name(theirs, [w.numpy() for w in theirs.trainable_weights])
    for weight in ours.weights:
        # Their attention kernels are (D, H, K) and (H, K, D).
        weight.assign(arrays[their_name(weight.path)].reshape(weight.shape))


def answer_and_gradients(model, inputs, output, worth):
    def answer():
        return output(model(inputs))

    _, gradients = value_and_gradients(
        lambda: answer() * worth, model.trainable_variables
    )
    return keras.ops.convert_to_numpy(answer()), by_name(model, gradients)


def assert_same(ours, theirs):
    our_answer, our_gradients = ours
    their_answer, their_gradients = theirs
    np.testing.assert_allclose(our_answer, their_answer, rtol=0, atol=1e-5)
    for path, gradient in our_gradients.items():
        expected = their_gradients[their_name(path)].reshape(gradient.shape)
        np.testing.assert_allclose(
            gradient, expected, rtol=1e-5, atol=1e-5, err_msg=path
        )


def test_encoder(backbone, inputs):
    encoder = build_encoder(CONFIG, VOCABULARY_SIZE)
    copy_weights(backbone, encoder)
    # What comes out at padding is read by nobody.
    worth = np.random.default_rng(1).normal(size=(3, 9, 16)) / 10
    worth = (worth * inputs["padding_mask"][..., np.newaxis]).astype("float32")

    def real_tokens(outputs):
        padding_mask = inputs["padding_mask"][..., np.newaxis].astype("float32")
        return outputs["sequence_output"] * padding_mask

    assert_same(
        answer_and_gradients(encoder, inputs, real_tokens, worth),
        answer_and_gradients(backbone, inputs, real_tokens, worth),
    )


def test_masked_language_model(backbone, inputs, randomise):
    theirs = keras_hub.models.BertMaskedLM(backbone)
    # The head of KerasHub keeps its own epsilon and the exact GELU beside a
    # backbone with the approximate one; the published BERT has one of each.
    theirs.masked_lm_head._intermediate_layer_norm.epsilon = 1e-12
    theirs.masked_lm_head._intermediate_dense.activation = gelu_tanh
    randomise(theirs)
    ours = build_model(CONFIG, MaskedConfig(), VOCABULARY_SIZE)
    copy_weights(theirs, ours)

    positions = np.array([[8, 0, 4], [5, 2, 1], [0, 1, 1]], "int32")
    worth = np.random.default_rng(1).normal(size=(3, 3, VOCABULARY_SIZE)) / 10
    worth = worth.astype("float32")
    assert_same(
        answer_and_gradients(
            ours,
            {**inputs, "masked_positions": positions},
            lambda outputs: outputs["logits"],
            worth,
        ),
        answer_and_gradients(
            theirs, {**inputs, "mask_positions": positions}, lambda x: x, worth
        ),
    )
