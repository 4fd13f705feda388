"""The order of things in a block, before and after the norm, in NumPy."""

import keras
import numpy as np
import pytest

from tests.model.conftest import small_config
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.block import (
    NoFeedForwardConfig,
    RelativeBiasPositionConfig,
)
from transbeam.model.layers.block import PARTS, TransformerBlock
from transbeam.model.stack.layer_stack import build_block
from transbeam.model.stack.stack_spec import StackSpec

X = np.random.default_rng(0).normal(size=(2, 5, 16)).astype("float32")
EVERYONE = {"padding_mask": np.ones((2, 5), "int32")}


def make_block(config) -> TransformerBlock:
    plan = StackSpec(config=config, attention=config.attention, num_layers=1)
    return build_block(plan, "encoder_layer_0", 0)


def layer_norm(x, gamma, beta):
    x = x.astype("float64")
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-12)
    return (x - x.mean(axis=-1, keepdims=True)) / deviation * gamma + beta


def relu_network(x, first, first_bias, second, second_bias):
    return np.maximum(x @ first + first_bias, 0) @ second + second_bias


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_against_numpy(placement, randomise):
    block = make_block(small_config(placement=placement, activation="relu"))
    block(X, EVERYONE)
    randomise(block)
    w = {weight.path.split("/", 1)[1]: weight.numpy() for weight in block.weights}

    def attention(x):
        x = x.astype("float32")
        return np.asarray(block.self_attention(x, EVERYONE))

    def feedforward(x):
        layers = ("intermediate", "output")
        return relu_network(
            x, *(w[f"feedforward/{k}/{v}"] for k in layers for v in ("kernel", "bias"))
        )

    def norm(x, name):
        return layer_norm(x, w[f"{name}/gamma"], w[f"{name}/beta"])

    if placement == "post":
        x = norm(X + attention(X), "self_attention_norm")
        expected = norm(x + feedforward(x), "feedforward_norm")
    else:
        x = X + attention(norm(X, "self_attention_norm"))
        expected = x + feedforward(norm(x, "feedforward_norm"))
    np.testing.assert_allclose(block(X, EVERYONE), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_an_attention_only_block_is_one_sublayer(placement, randomise):
    """No feed-forward, and neither its norm nor its residual connection."""
    config = small_config(placement=placement, feedforward=NoFeedForwardConfig())
    block = make_block(config)
    block(X, EVERYONE)
    randomise(block)
    assert not [weight.path for weight in block.weights if "feedforward" in weight.path]
    w = {weight.path.split("/", 1)[1]: weight.numpy() for weight in block.weights}
    gamma, beta = (w[f"self_attention_norm/{name}"] for name in ("gamma", "beta"))

    def attention(x):
        return np.asarray(block.self_attention(x.astype("float32"), EVERYONE))

    if placement == "post":
        expected = layer_norm(X + attention(X), gamma, beta)
    else:
        expected = X + attention(layer_norm(X, gamma, beta))
    np.testing.assert_allclose(block(X, EVERYONE), expected, rtol=0, atol=2e-5)


def test_a_stack_scales_by_its_number_of_sublayers():
    """A scaled residual in two attention-only blocks divides by sqrt(2), not 2."""
    numbers = {}
    for name, changes in {
        "all": {},
        "no": {"feedforward": NoFeedForwardConfig()},
    }.items():
        config = small_config(**changes)
        plan = StackSpec(config=config, attention=config.attention, num_layers=2)
        crossing = StackSpec(
            config=config, attention=config.attention, num_layers=2, cross=True
        )
        numbers[name] = plan.num_updates, crossing.num_updates
    assert numbers == {"all": (4, 6), "no": (2, 4)}


def test_dropout_everywhere_by_seeds_of_its_own(randomise):
    def fresh() -> TransformerBlock:
        block = make_block(small_config(dropout=0.5))
        block.build(X.shape)
        return randomise(block)

    block = fresh()
    seeds = {
        block.self_attention.probabilities_dropout.seed,
        block.self_attention_residual.seed,
        block.feedforward_residual.seed,
    }
    assert len(seeds) == 3
    trained = np.asarray(block(X, EVERYONE, training=True))
    np.testing.assert_array_equal(trained, fresh()(X, EVERYONE, training=True))
    assert np.abs(trained - np.asarray(block(X, EVERYONE))).max() > 0.1


def test_the_table_of_biases_is_not_rounded_on_its_way():
    config = small_config(
        position=RelativeBiasPositionConfig(num_buckets=4, max_distance=8)
    )
    plan = StackSpec(
        config=config,
        attention=config.attention,
        num_layers=1,
        dtype="mixed_bfloat16",
    )
    block = build_block(plan, "encoder_layer_0", 0)
    block.build(X.shape)
    query = block.self_attention.query
    query.set_weights([0.0 * weight for weight in query.get_weights()])
    # Two tokens, and the bucket of one ahead is the last. In bfloat16, both are 100.
    table = np.array([[100.0], [100.0], [100.0], [100.2]], "float32").repeat(2, axis=1)
    sequence_info = {"padding_mask": np.ones((2, 2), "int32"), "bias_table": table}
    with block.self_attention.probabilities.watch() as seen:
        outputs = block(X[:, :2], sequence_info)
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    # e ** 0.2 to 1.
    np.testing.assert_allclose(seen[0][:, :, 0, 1], 0.549834, rtol=0, atol=1e-5)


def test_an_unknown_placement_is_refused():
    block = make_block(small_config())
    parts = {name: getattr(block, name) for name in PARTS}
    with pytest.raises(ConfigError, match="norm_placement='sandwich'"):
        TransformerBlock(**parts, norm_placement="sandwich")
