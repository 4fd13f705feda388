"""A table of tokens that is narrower than what blocks read (`model.embedding_dim`)."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from keras import ops

from tests.model.compiling import compiled_on_jax
from tests.model.gradients import value_and_gradients
from transbeam.configs.schema.adaptation import LoraWeightsConfig
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    GlorotInitializerConfig,
    LayerNormConfig,
    NoPositionConfig,
    RmsNormConfig,
)
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Seq2SeqModelConfig,
)
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    MaskedConfig,
    SpanCorruptionConfig,
)
from transbeam.model.adaptation.lora import enable_lora, merge_lora
from transbeam.model.adaptation.quantization import quantise
from transbeam.model.build import build_model
from transbeam.model.cost.parameters import count_trained
from transbeam.model.cost.weight_shapes import backbone_shapes
from transbeam.model.decoder import build_decoder
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.hidden_states import with_hidden_states
from transbeam.model.seq2seq import build_seq2seq
from transbeam.model.weights.assign import variables_by_path

VOCABULARY_SIZE = 11
OPTIONS = {
    "num_layers": 1,
    "hidden_dim": 8,
    "embedding_dim": 3,
    "max_sequence_length": 12,
    "dropout": 0.0,
    "attention": FullAttentionConfig(num_heads=2, dropout=0.0),
    "feedforward": DenseFeedForwardConfig(intermediate_dim=12),
}
MODELS = {
    "encoder": (EncoderConfig(**OPTIONS, num_segments=2), MaskedConfig()),
    "decoder": (DecoderConfig(**OPTIONS), CausalConfig()),
    "untied": (DecoderConfig(**OPTIONS, tie_embeddings=False), CausalConfig()),
    "seq2seq": (
        Seq2SeqModelConfig(**OPTIONS, embeddings_norm=True),
        SpanCorruptionConfig(),
    ),
}
each_model = pytest.mark.parametrize("name", MODELS)
IDS = np.array([[1, 2, 3, 4], [5, 6, 7, 0]], "int32")
MASK = (IDS > 0).astype("int32")


def built(name: str, **changes) -> keras.Model:
    config, objective = MODELS[name]
    return build_model(replace(config, **changes), objective, VOCABULARY_SIZE)


def inputs_of(model: keras.Model) -> dict[str, np.ndarray]:
    given = {
        "segment_ids": np.array([[0, 0, 1, 1], [0, 1, 1, 1]], "int32"),
        "masked_positions": np.array([[1, 3], [0, 2]], "int32"),
    }
    for side in ("", "encoder_", "decoder_"):
        given |= {f"{side}token_ids": IDS, f"{side}padding_mask": MASK}
    return {name: given[name] for name in model.input}


def logits(model: keras.Model) -> np.ndarray:
    return ops.convert_to_numpy(compiled_on_jax(model)(inputs_of(model))["logits"])


def assign(model: keras.Model, values: dict[str, np.ndarray]) -> None:
    for path, value in values.items():
        variables_by_path(model)[path].assign(value)


def test_wide_vectors_by_hand():
    """Table, place and segment in two numbers, the norm of those, then three."""
    config = EncoderConfig(
        **{**OPTIONS, "hidden_dim": 4, "embedding_dim": 2},
        num_segments=1,
        norm=LayerNormConfig(epsilon=0.0),
    )
    model = build_encoder(config, VOCABULARY_SIZE)
    tables = {f"{name}_embedding/embeddings" for name in ("token", "position")}
    weights = variables_by_path(model)
    for path in tables:
        weights[path].assign(np.zeros(weights[path].shape))
    table = np.zeros((VOCABULARY_SIZE, 2))
    table[5] = [1.0, 7.0]
    assign(
        model,
        {
            "token_embedding/embeddings": table,
            "segment_embedding/embeddings": [[2.0, 0.0]],
            "embedding_projection/kernel": [[1.0, 2.0, 0.0, 3.0], [0.0, 1.0, 5.0, 1.0]],
            "embedding_projection/bias": [0.0, 0.0, 0.5, 0.0],
        },
    )
    ids = np.array([[5]], "int32")
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    found = with_hidden_states(model)(inputs)["embeddings"]
    # [3, 7] has the mean 5 and the deviation 2: [-1, 1].
    expected = [[[-1.0, -1.0, 5.5, -2.0]]]
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, atol=1e-6)


def test_tied_scores_by_hand():
    """Projected hidden states times the table."""
    config = DecoderConfig(
        **{
            **OPTIONS,
            "hidden_dim": 4,
            "embedding_dim": 2,
            "position": NoPositionConfig(),
        }
    )
    model = build_decoder(config, 3)
    kernel = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, -1.0]], "float32")
    table = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, -1.0]], "float32")
    assign(
        model,
        {"logits_projection/kernel": kernel, "token_embedding/embeddings": table},
    )
    ids = np.array([[2, 0]], "int32")
    outputs = model({"token_ids": ids, "padding_mask": np.ones_like(ids)})
    x = ops.convert_to_numpy(outputs["sequence_output"])
    narrow = np.stack([x[..., 0] + x[..., 2], x[..., 1] + x[..., 2] - x[..., 3]], -1)
    first, second = narrow[..., 0], narrow[..., 1]
    expected = np.stack([first, 2 * second, first - second], axis=-1)
    np.testing.assert_allclose(
        ops.convert_to_numpy(outputs["logits"]), expected, atol=1e-5
    )


@each_model
def test_as_wide_as_blocks_and_passed_on_as_it_is_changes_nothing(name, randomise):
    plain = randomise(built(name, embedding_dim=None))
    same = built(name, embedding_dim=8)
    values = {path: w.numpy() for path, w in variables_by_path(plain).items()}
    new = variables_by_path(same).keys() - values.keys()
    kernels = {path for path in new if path.endswith("kernel")}
    assert kernels <= {"embedding_projection/kernel", "logits_projection/kernel"}
    assign(
        same,
        {
            **values,
            **dict.fromkeys(new - kernels, np.zeros(8)),
            **dict.fromkeys(kernels, np.eye(8)),
        },
    )
    np.testing.assert_allclose(logits(same), logits(plain), rtol=1e-5, atol=1e-5)


@each_model
def test_every_weight_learns(name, randomise):
    model = randomise(built(name))
    inputs = inputs_of(model)

    def loss():
        scores = ops.log_softmax(model(inputs)["logits"], axis=-1)
        return -ops.sum(scores[..., 1])

    _, gradients = value_and_gradients(loss, model.trainable_weights)
    largest = {
        weight.path: float(np.abs(gradient).max())
        for weight, gradient in zip(model.trainable_weights, gradients, strict=True)
    }
    # The same for all scores of a query, which softmax takes out again.
    idle = {path for path in largest if path.endswith("key/bias")}
    assert {path for path, size in largest.items() if size < 1e-5} == idle


def test_both_sides_read_one_table_and_widen_it_alike():
    model = built("seq2seq")
    wide = [w.path for w in model.weights if w.path.startswith("embedding_projection")]
    assert wide == ["embedding_projection/kernel", "embedding_projection/bias"]


def test_scores_are_scaled_by_the_width_of_what_is_scored(randomise):
    options = {**OPTIONS, "embedding_dim": 4, "norm": RmsNormConfig()}
    for tied, width in ((True, 4), (False, 8)):
        config = Seq2SeqModelConfig(**options, tie_embeddings=tied)
        plain = randomise(build_seq2seq(config, VOCABULARY_SIZE))
        scaled = build_seq2seq(replace(config, scale_logits=True), VOCABULARY_SIZE)
        scaled.set_weights(plain.get_weights())
        expected = width**-0.5 * logits(plain)
        np.testing.assert_allclose(logits(scaled), expected, rtol=1e-4, atol=1e-5)


def test_vectors_begin_with_the_length_that_the_width_of_the_table_gives():
    glorot = GlorotInitializerConfig()
    config = DecoderConfig(**OPTIONS, initializer=glorot, embedding_scale=True)
    config = replace(config, embedding_dim=4)
    table = build_decoder(config, 4_000).get_layer("token_embedding")
    vectors = ops.convert_to_numpy(table(np.arange(4_000)[None]))
    assert np.std(vectors) == pytest.approx(1.0, rel=0.02)


@each_model
def test_saved_and_loaded_it_answers_the_same(name, randomise, tmp_path):
    model = randomise(built(name))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(logits(loaded), logits(model))


@each_model
def test_in_eight_bits(name, randomise):
    model = randomise(built(name))
    before = logits(model)
    quantise(model, "int8")
    paths = {weight.path: weight.dtype for weight in model.weights}
    assert paths["token_embedding/embeddings"] == "int8"
    assert paths["embedding_projection/kernel"] == "int8"
    assert np.abs(logits(model) - before).max() < 0.05 * np.abs(before).max()


def test_an_adapter_beside_each(randomise):
    model = randomise(built("decoder"))
    before = logits(model)
    targets = ("embedding_projection", "logits_projection")
    there = enable_lora(model, 2, targets=targets).trainable
    lora = LoraWeightsConfig(rank=2, targets=targets)
    shapes = backbone_shapes(MODELS["decoder"][0], VOCABULARY_SIZE)
    assert count_trained(shapes, lora).numbers == there == 2 * 2 * (3 + 8)
    np.testing.assert_allclose(logits(model), before, atol=1e-5)
    assert [w.path for w in model.trainable_weights] == [
        "embedding_projection/lora_kernel_a",
        "embedding_projection/lora_kernel_b",
        "logits_projection/lora_kernel_a",
        "logits_projection/lora_kernel_b",
    ]
    for weight in model.trainable_weights:
        weight.assign_add(0.5 * np.ones(weight.shape))
    beside = logits(model)
    assert np.abs(beside - before).max() > 1e-2
    merge_lora(model)
    np.testing.assert_allclose(logits(model), beside, rtol=1e-4, atol=1e-4)
