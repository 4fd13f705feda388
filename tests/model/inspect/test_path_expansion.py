"""The paths of attention-only decoders, compared to their logits and to NumPy."""

from dataclasses import replace

import numpy as np
import pytest
from keras import ops

from tests.model.conftest import VOCABULARY_SIZE
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    SlidingWindowAttentionConfig,
)
from transbeam.configs.schema.block import (
    AlibiPositionConfig,
    DenseFeedForwardConfig,
    LayerNormConfig,
    NoFeedForwardConfig,
    NoPositionConfig,
    ReZeroResidualConfig,
    RmsNormConfig,
    RopePositionConfig,
    ScaledResidualConfig,
)
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.build import build_model
from transbeam.model.decoder import build_decoder
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.model.inspect.path_expansion import expand_paths
from transbeam.model.weights.assign import variables_by_path

HEADS, WIDTH = 2, 12
INPUTS = {
    "token_ids": np.array([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]], "int32"),
    "padding_mask": np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], "int32"),
}
REAL = INPUTS["padding_mask"] == 1


def decoder_config(**changes) -> DecoderConfig:
    options = {
        "num_layers": 1,
        "hidden_dim": WIDTH,
        "max_sequence_length": 8,
        "attention": FullAttentionConfig(num_heads=HEADS),
        "norm": LayerNormConfig(placement="pre"),
        "feedforward": NoFeedForwardConfig(),
    }
    return DecoderConfig(**{**options, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_layers": 2},
        {"num_layers": 3, "position": RopePositionConfig()},
        {"norm": RmsNormConfig(), "num_layers": 2, "position": AlibiPositionConfig()},
        {
            "attention": FullAttentionConfig(
                num_heads=4, num_key_value_heads=2, head_dim=5, output_bias=False
            ),
            "tie_embeddings": False,
            "num_layers": 2,
        },
        {
            "residual": ScaledResidualConfig(),
            "num_layers": 2,
            "embedding_dim": 6,
            "attention": FullAttentionConfig(num_heads=3, projection_bias=False),
        },
        {"residual": ReZeroResidualConfig(), "num_layers": 2, "embeddings_norm": True},
    ],
    ids=["1", "2", "3, rope", "rms, alibi", "groups", "scaled, narrow", "rezero"],
)
def test_the_paths_sum_to_the_logits(changes, randomise):
    config = decoder_config(**changes)
    model = randomise(build_decoder(config, VOCABULARY_SIZE))
    expansion = expand_paths(model, INPUTS)
    heads = config.attention.num_heads
    assert len(expansion.paths) == (1 + heads) ** config.num_layers
    assert len(set(expansion.paths)) == len(expansion.paths)
    terms = {path: ops.convert_to_numpy(x) for path, x in expansion.logits()}
    logits = ops.convert_to_numpy(model(INPUTS)["logits"])
    assert terms[None].shape == logits.shape
    np.testing.assert_allclose(sum(terms.values())[REAL], logits[REAL], atol=1e-4)
    assert min(np.abs(term[REAL]).max() for term in terms.values()) > 1e-4


def test_one_layer_by_its_matrices(randomise):
    """Direct path W_E W_U, head path A W_E W_V W_O W_U, with the norms' scales."""
    model = randomise(
        build_decoder(decoder_config(position=NoPositionConfig()), VOCABULARY_SIZE)
    )
    w = {
        path: ops.convert_to_numpy(weight).astype("float64")
        for path, weight in variables_by_path(model).items()
    }
    block = "decoder_layer_0/self_attention"
    table = w["token_embedding/embeddings"]
    x = table[INPUTS["token_ids"]]
    pattern = ops.convert_to_numpy(attention_probabilities(model, INPUTS)[block])

    def centered(x):
        return x - x.mean(axis=-1, keepdims=True)

    def scale(x, name):
        deviation = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-12)
        return w[f"{name}/gamma"] / deviation

    normed = centered(x) * scale(x, f"{block}_norm")
    beta = w[f"{block}_norm/beta"]
    value, out = w[f"{block}/value/kernel"], w[f"{block}/output/kernel"]
    constant = (beta @ value + w[f"{block}/value/bias"]) @ out + w[
        f"{block}/output/bias"
    ]
    each = WIDTH // HEADS
    added = [
        pattern[:, head] @ normed @ value[:, part] @ out[part]
        for head, part in ((h, slice(h * each, (h + 1) * each)) for h in range(HEADS))
    ]
    last = scale(x + sum(added) + constant, "final_norm")
    expected = {
        (): centered(x) * last,
        **{((0, head),): centered(added[head]) * last for head in range(HEADS)},
        None: centered(constant) * last + w["final_norm/beta"],
    }
    found = dict(expand_paths(model, INPUTS).logits())
    assert found.keys() == expected.keys()
    for path, vectors in expected.items():
        logits = ops.convert_to_numpy(found[path])
        np.testing.assert_allclose(logits[REAL], (vectors @ table.T)[REAL], atol=1e-4)


def test_a_virtual_head_is_one_head_behind_the_other(randomise):
    """Without the second layer's reading of head 1.0 its four paths are zero."""
    model = randomise(build_decoder(decoder_config(num_layers=2), VOCABULARY_SIZE))
    kernel = variables_by_path(model)["decoder_layer_0/self_attention/output/kernel"]
    edited = ops.convert_to_numpy(kernel).copy()
    edited[: WIDTH // HEADS] = 0.0
    kernel.assign(edited)
    expansion = expand_paths(model, INPUTS)
    vectors = ops.convert_to_numpy(expansion.vectors)
    silent = [
        path
        for path, x in zip(expansion.paths, vectors, strict=True)
        if np.abs(x[REAL]).max() < 1e-6
    ]
    assert silent == [((0, 0),), ((0, 0), (1, 0)), ((0, 0), (1, 1))]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"feedforward": DenseFeedForwardConfig(intermediate_dim=8)}, "feed-forward"),
        ({"norm": LayerNormConfig(placement="post")}, "norm.placement is post"),
        (
            {"attention": SlidingWindowAttentionConfig(num_heads=2, window_size=4)},
            "not of kind full",
        ),
        ({"num_layers": 8}, "8 layers have 6,561 paths, more than 4,096"),
    ],
)
def test_models_whose_logits_are_no_sum_over_paths(changes, reason):
    model = build_decoder(decoder_config(**changes), VOCABULARY_SIZE)
    with pytest.raises(ConfigError, match=reason):
        expand_paths(model, INPUTS)


def test_an_encoder_is_refused_with_and_without_logits(config):
    config = replace(
        config, feedforward=NoFeedForwardConfig(), norm=LayerNormConfig(placement="pre")
    )
    masked = build_model(config, MaskedConfig(), VOCABULARY_SIZE)
    for model in (build_encoder(config, VOCABULARY_SIZE), masked):
        with pytest.raises(ConfigError, match="is not a decoder"):
            expand_paths(model, INPUTS)
