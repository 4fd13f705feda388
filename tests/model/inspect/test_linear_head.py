"""The matrices of linear layers are those that a model computes with."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.model.conftest import VOCABULARY_SIZE, small_config
from tests.model.inspect.decoders import WIDTH, make_decoder, make_inputs
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.adaptation.quantization import quantise
from transbeam.model.build import build_model
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.linear_head import LinearHead, fold_norm, read_kernel
from transbeam.model.layers.norms import LayerNormalization, RMSNormalization


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tie_embeddings": False},
        {"embedding_dim": 5},
        {"embedding_dim": 5, "tie_embeddings": False},
        {"vocabulary_multiple": 64},
    ],
    ids=["tied", "untied", "narrow", "narrow and untied", "rounded up"],
)
def test_logits_are_products_with_directions(randomise, changes):
    model = make_decoder(randomise, **changes)
    outputs = model(make_inputs())
    head = LinearHead.from_model(model)
    assert head.table.shape[0] == VOCABULARY_SIZE
    directions = head.read_directions(np.arange(VOCABULARY_SIZE))
    found = ops.convert_to_numpy(outputs["sequence_output"]) @ directions.T
    np.testing.assert_allclose(found, outputs["logits"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [LayerNormalization, RMSNormalization])
def test_a_folded_norm_only_divides(kind):
    generator = np.random.default_rng(0)
    norm = kind(epsilon=0.0)
    norm.build((None, 6))
    norm.gamma.assign(generator.normal(1, 0.4, 6))
    kernel, x = generator.normal(size=(6, 4)), generator.normal(size=(3, 6))
    centered = x - x.mean(1, keepdims=True) if kind is LayerNormalization else x
    scale = np.sqrt(np.mean(centered**2, axis=1, keepdims=True))
    expected = ops.convert_to_numpy(norm(x)) @ kernel
    np.testing.assert_allclose(x @ fold_norm(kernel, norm) / scale, expected, atol=1e-5)


def test_no_norm_no_change():
    kernel = np.eye(2)
    assert fold_norm(kernel, None) is kernel


def test_quantized_matrices_are_refused(randomise):
    model = make_decoder(randomise)
    quantise(model, "int8")
    with pytest.raises(ConfigError, match="token_embedding is quantized"):
        LinearHead.from_model(model)


def test_adapters_are_refused():
    layer = keras.layers.Dense(3, name="query")
    layer.build((None, WIDTH))
    layer.enable_lora(2)
    with pytest.raises(ConfigError, match="query has an adapter"):
        read_kernel(layer)


def test_heads_that_are_not_linear():
    model = build_model(small_config(), MaskedConfig(), VOCABULARY_SIZE)
    with pytest.raises(ConfigError, match="activation and a norm"):
        LinearHead.from_model(model)
    with pytest.raises(ConfigError, match="no logits over its vocabulary"):
        LinearHead.from_model(build_encoder(small_config(), VOCABULARY_SIZE))
