"""The contributions of all parts add up to the logit, and are what the parts do."""

import numpy as np
import pytest
from keras import ops

from tests.model.conftest import VOCABULARY_SIZE, small_config
from tests.model.inspect.decoders import (
    HEADS,
    LAYERS,
    decoder_config,
    make_decoder,
    make_inputs,
)
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    KernelAttentionConfig,
    SlidingWindowAttentionConfig,
)
from transbeam.configs.schema.block import (
    AlibiPositionConfig,
    DropPathResidualConfig,
    LayerNormConfig,
    LearnedPositionConfig,
    NoPositionConfig,
    RelativeBiasPositionConfig,
    ReZeroResidualConfig,
    RopePositionConfig,
    ScaledResidualConfig,
    SinusoidalPositionConfig,
)
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.adaptation.quantization import quantise
from transbeam.model.base.activation_hooks import hooked, replaced
from transbeam.model.build import build_model
from transbeam.model.decoder import build_decoder
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.logit_attribution import (
    ResidualPart,
    attribute_logits,
    freeze_norm,
)
from transbeam.model.layers.norms import LayerNormalization
from transbeam.model.seq2seq import build_seq2seq

POSITIONS, TOKENS, OTHERS = [5, 3], [7, 11], [0, 20]

KINDS = {
    "learned positions": {},
    "offset positions": {"position": LearnedPositionConfig(offset=2)},
    "sinusoidal": {"position": SinusoidalPositionConfig(), "embedding_scale": True},
    "rms, grouped, rope": {
        "rms": True,
        "key_heads": 1,
        "position": RopePositionConfig(),
        "tie_embeddings": False,
    },
    "alibi": {"position": AlibiPositionConfig(), "tie_embeddings": False},
    "relative bias": {"position": RelativeBiasPositionConfig(num_buckets=8)},
    "no positions": {"position": NoPositionConfig()},
    "embeddings norm": {"embeddings_norm": True},
    "narrow": {"embedding_dim": 5},
    "narrow and untied": {
        "embedding_dim": 5,
        "tie_embeddings": False,
        "embeddings_norm": True,
    },
    "scaled residual": {"residual": ScaledResidualConfig()},
    "rezero": {"residual": ReZeroResidualConfig()},
    "drop path": {"residual": DropPathResidualConfig(rate=0.5), "dropout": 0.5},
    "no output bias": {
        "attention": FullAttentionConfig(num_heads=HEADS, output_bias=False)
    },
    "wide heads": {"attention": FullAttentionConfig(num_heads=HEADS, head_dim=6)},
    "sliding window": {
        "attention": SlidingWindowAttentionConfig(num_heads=HEADS, window_size=2)
    },
    "kernel": {"attention": KernelAttentionConfig(num_heads=HEADS)},
}


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_contributions_add_up_to_the_logit(randomise, changes):
    model, inputs = make_decoder(randomise, **changes), make_inputs()
    logits = ops.convert_to_numpy(model(inputs)["logits"])
    expected = logits[[0, 1], POSITIONS, TOKENS]
    found = attribute_logits(model, inputs, POSITIONS, TOKENS)
    np.testing.assert_array_equal(found.logits, expected)
    sums = found.contributions.sum(axis=1)
    np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-4)

    expected = expected - logits[[0, 1], POSITIONS, OTHERS]
    found = attribute_logits(model, inputs, POSITIONS, TOKENS, OTHERS)
    np.testing.assert_allclose(found.logits, expected, atol=1e-6)
    sums = found.contributions.sum(axis=1)
    np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-4)


def test_parts(randomise):
    found = attribute_logits(
        make_decoder(randomise, embedding_dim=5), make_inputs(), POSITIONS, TOKENS
    )
    blocks = []
    for block in (f"decoder_layer_{index}" for index in range(LAYERS)):
        attention = f"{block}/self_attention"
        blocks += [ResidualPart(attention, head) for head in range(HEADS)]
        blocks += [ResidualPart(f"{attention}/bias")]
        blocks += [ResidualPart(f"{block}/feedforward")]
    assert found.parts == (
        ResidualPart("token_embedding"),
        ResidualPart("position_embedding"),
        ResidualPart("embedding_projection/bias"),
        *blocks,
        ResidualPart("final_norm/bias"),
    )
    assert found.contributions.shape == (2, len(found.parts))


def test_by_hand():
    parts = np.array([[[2.0, 0, 1], [1, -1, 0]]])
    norm, direction = LayerNormalization(epsilon=0.0), np.array([1.0, 0, -1])
    norm.build((None, 3))
    found = freeze_norm(parts, parts.sum(1), norm) @ direction
    np.testing.assert_allclose(found, [[0.6124, 0.6124]], atol=5e-5)
    assert found.sum() == pytest.approx(1.2247, abs=5e-5)
    own = freeze_norm(parts[:, :1], parts[:, 0], norm) @ direction
    assert own[0, 0] != pytest.approx(0.6124, abs=0.1)  # a norm of its own is wrong


@pytest.mark.parametrize("rms", [False, True], ids=["layer norm", "rms norm"])
@pytest.mark.parametrize("head", range(HEADS))
def test_a_head_of_the_last_layer_against_the_model_without_it(randomise, head, rms):
    """Nothing but the final norm reads the last layer's heads behind a ReZero of 0.

    The stream without the head, normalized by the scale with it, lacks its share.
    """
    model = make_decoder(
        randomise, rms=rms, residual=ReZeroResidualConfig(), key_heads=1
    )
    block = model.get_layer("decoder_layer_1")
    block.feedforward_residual.scale.assign(0.0)
    inputs, part = make_inputs(1), ResidualPart(block.self_attention.path, head)
    found = attribute_logits(model, inputs, [4], [9])

    def run(hook=lambda path, value: value):
        streams = {}

        def keep(path, value):
            value = hook(path, value)
            streams[path] = value
            return value

        with hooked(keep):
            model(inputs)
        return ops.convert_to_numpy(streams[f"{block.path}/output"])[0, 4]

    def without(heads):
        heads = np.array(heads)
        heads[:, :, head] = 0
        return ops.convert_to_tensor(heads)

    whole = run()
    rest = run(replaced({f"{block.self_attention.path}/heads": without}))
    change = (whole - rest)[None, None]
    share = freeze_norm(change, whole[None], model.get_layer("final_norm"))[0, 0]
    table = ops.convert_to_numpy(model.get_layer("token_embedding").embeddings)
    value = found.contributions[0, found.parts.index(part)]
    assert abs(value) > 1e-3
    assert value == pytest.approx(float(share @ table[9]), abs=1e-5)


def test_the_scale_is_that_of_the_position(randomise):
    """The other row and the padding make no difference."""
    model, inputs = make_decoder(randomise), make_inputs()
    both = attribute_logits(model, inputs, POSITIONS, TOKENS)
    alone = attribute_logits(
        model, {name: x[1:, :4] for name, x in inputs.items()}, [3], [11]
    )
    np.testing.assert_allclose(alone.contributions[0], both.contributions[1], atol=1e-5)


def test_what_does_not_add_up_is_refused(randomise):
    """A change behind a residual connection is no part's."""
    model = make_decoder(randomise)

    def change(value):
        return value + 1e-2

    # The recording in the function is the inner hook; the change is in the layer.
    block = model.get_layer("decoder_layer_0")
    norm, call = block.feedforward_residual, block.feedforward_residual.call
    norm.call = lambda *args, **kwargs: change(call(*args, **kwargs))
    with pytest.raises(ConfigError, match="the residual stream do not add up"):
        attribute_logits(model, make_inputs(), POSITIONS, TOKENS)


def test_low_precision_is_refused(randomise):
    model = randomise(
        build_decoder(decoder_config(), VOCABULARY_SIZE, dtype="mixed_bfloat16")
    )
    with pytest.raises(ConfigError, match="Give a model with dtype float32"):
        attribute_logits(model, make_inputs(), POSITIONS, TOKENS)


def test_post_norm_is_refused(randomise):
    norm = LayerNormConfig(placement="post")
    with pytest.raises(ConfigError, match=r"norm.placement=post: every sum"):
        attribute_logits(
            make_decoder(randomise, norm=norm), make_inputs(), POSITIONS, TOKENS
        )


def test_other_models_are_refused():
    encoder = build_encoder(small_config(), VOCABULARY_SIZE)
    masked = build_model(small_config(), MaskedConfig(), VOCABULARY_SIZE)
    for model in (encoder, masked):
        with pytest.raises(ConfigError, match="head of masked tokens is not linear"):
            attribute_logits(model, make_inputs(), POSITIONS, TOKENS)
    config = Seq2SeqModelConfig(num_layers=1, hidden_dim=8)
    with pytest.raises(ConfigError, match="two residual streams"):
        attribute_logits(build_seq2seq(config, 10), make_inputs(), POSITIONS, TOKENS)


def test_quantized_models_are_refused(randomise):
    model = make_decoder(randomise)
    quantise(model, "int8")
    with pytest.raises(ConfigError, match="is quantized"):
        attribute_logits(model, make_inputs(), POSITIONS, TOKENS)


@pytest.mark.parametrize(
    ("positions", "tokens", "message"),
    [
        ([5, 6], TOKENS, "position 6"),
        ([5, -1], TOKENS, "position -1"),
        (POSITIONS, [7, VOCABULARY_SIZE], f"token {VOCABULARY_SIZE}"),
        (POSITIONS, [-1, 3], "token -1"),
        ([5], [7], "1 position"),
    ],
)
def test_out_of_range(randomise, positions, tokens, message):
    with pytest.raises(ConfigError, match=message):
        attribute_logits(make_decoder(randomise), make_inputs(), positions, tokens)
