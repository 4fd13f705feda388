"""Heads on decoders: blind to the side of padding and to what follows a word."""

import numpy as np
import pytest

from tests.model.compiling import compiled_on_jax
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    KernelAttentionConfig,
    SlidingWindowAttentionConfig,
)
from transbeam.configs.schema.block import (
    AlibiPositionConfig,
    DenseFeedForwardConfig,
    LearnedPositionConfig,
    RelativeBiasPositionConfig,
    RopePositionConfig,
    SinusoidalPositionConfig,
)
from transbeam.configs.schema.model import DecoderConfig, EncoderConfig, PoolerConfig
from transbeam.configs.schema.objectives.contrastive import ContrastivePairsConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    RegressionConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)
from transbeam.model.build import build_decoder, build_decoder_body, build_model

LABELS = ("a", "b", "c")
SMALL = {
    "num_layers": 2,
    "hidden_dim": 16,
    "max_sequence_length": 16,
    "attention": FullAttentionConfig(num_heads=2),
    "feedforward": DenseFeedForwardConfig(intermediate_dim=16),
}
TEXT = [5, 0, 7, 3]  # with the id of padding inside
LEFT = {"token_ids": [[0, 0, *TEXT]], "padding_mask": [[0, 0, 1, 1, 1, 1]]}
RIGHT = {"token_ids": [[*TEXT, 0, 0]], "padding_mask": [[1, 1, 1, 1, 0, 0]]}
ALONE = {"token_ids": [TEXT], "padding_mask": [[1, 1, 1, 1]]}
PACKED = {
    "token_ids": [[*TEXT, 0, 0]],
    "document_ids": [[1, 1, 1, 1, 0, 0]],
    "position_ids": [[0, 1, 2, 3, 0, 0]],
}


def answer(model, inputs: dict) -> np.ndarray:
    rows = {name: np.array(row, "int32") for name, row in inputs.items()}
    (found,) = compiled_on_jax(model)(rows).values()
    return np.asarray(found)


def classifier(*, packed: bool = False, **changed):
    config = DecoderConfig(**{**SMALL, **changed})
    return build_model(config, ClassificationConfig(labels=LABELS), 10, packed=packed)


def embedder(*, packed: bool = False, **changed):
    config = DecoderConfig(**{**SMALL, **changed})
    return build_model(config, ContrastivePairsConfig(), 10, packed=packed)


SOCKETS = [
    {"position": LearnedPositionConfig()},
    {"position": SinusoidalPositionConfig()},
    {"position": RopePositionConfig()},
    {"position": AlibiPositionConfig()},
    {"position": RelativeBiasPositionConfig()},
    {"attention": SlidingWindowAttentionConfig(num_heads=2, window_size=2)},
    {"attention": KernelAttentionConfig(num_heads=2)},
    {"pooler": PoolerConfig(kind="end_token", projection=True)},
    {"pooler": PoolerConfig(kind="mean")},
    {"pooler": PoolerConfig(kind="attention")},
]


@pytest.mark.parametrize("changed", SOCKETS, ids=str)
def test_left_right_and_no_padding_and_training_give_the_same(changed):
    model = classifier(**changed)
    expected = answer(model, ALONE)
    for inputs in (LEFT, RIGHT):
        np.testing.assert_allclose(answer(model, inputs), expected, rtol=0, atol=1e-6)
    trained = classifier(packed=True, **changed)
    trained.set_weights(model.get_weights())
    np.testing.assert_allclose(answer(trained, PACKED), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["last", "end_token", "mean", "max", "attention"])
def test_a_vector_is_that_of_the_text_alone(kind):
    """With padding on either side, and in a training, of the second text of a pair."""
    pooler = PoolerConfig(kind=kind, projection=kind == "attention")
    model = embedder(pooler=pooler)
    expected = answer(model, ALONE)
    assert np.linalg.norm(expected) == pytest.approx(1, abs=1e-6)
    for inputs in (LEFT, RIGHT):
        np.testing.assert_allclose(answer(model, inputs), expected, rtol=0, atol=1e-6)
    trained = embedder(packed=True, pooler=pooler)
    trained.set_weights(model.get_weights())
    second = {**PACKED, "document_ids": [[2, 2, 2, 2, 0, 0]]}
    np.testing.assert_allclose(answer(trained, second), expected, rtol=0, atol=1e-6)


def test_a_vector_is_of_the_last_token_by_default():
    model, body = embedder(), build_decoder_body(DecoderConfig(**SMALL), 10)
    body.set_weights(model.get_weights())
    last = answer(body, RIGHT)[:, 3]
    expected = last / np.linalg.norm(last)
    np.testing.assert_allclose(answer(model, RIGHT), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("build", [classifier, embedder])
def test_packed_texts_are_refused(build):
    two = {**PACKED, "document_ids": [[1, 1, 2, 2, 0, 0]]}
    rows = {name: np.array(row, "int32") for name, row in two.items()}
    with pytest.raises(ValueError, match="document ids of packed texts"):
        build(packed=True)(rows)


def test_the_last_token_is_that_of_the_body_through_a_matrix():
    model = classifier()
    body = build_decoder_body(DecoderConfig(**SMALL), 10)
    body.set_weights(model.get_weights()[:-1])
    vectors = answer(body, RIGHT)
    kernel = model.get_layer("classifier").kernel.numpy()
    np.testing.assert_allclose(answer(model, RIGHT), vectors[:, 3] @ kernel, atol=1e-6)


def test_the_body_is_that_of_the_language_model():
    config = DecoderConfig(**SMALL, tie_embeddings=False)
    body, whole = build_decoder_body(config, 10), build_decoder(config, 10)
    paths = {weight.path for weight in whole.weights}
    assert {weight.path for weight in body.weights} == paths - {"logits/kernel"}
    rows = {name: np.array(row, "int32") for name, row in RIGHT.items()}
    expected = compiled_on_jax(whole)(rows)["sequence_output"]
    np.testing.assert_array_equal(answer(body, RIGHT)[:, :4], expected[:, :4])


def test_a_tag_depends_on_the_tokens_before_it_alone():
    model = build_model(
        DecoderConfig(**SMALL), TokenClassificationConfig(labels=LABELS), 10
    )
    changed = {**RIGHT, "token_ids": [[5, 0, 7, 8, 0, 0]]}
    before, after = answer(model, RIGHT), answer(model, changed)
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert np.abs(before[:, 3] - after[:, 3]).max() > 1e-3


@pytest.mark.parametrize(
    ("objective", "path"),
    [
        (ClassificationConfig(labels=LABELS), "classifier/kernel"),
        (RegressionConfig(), "regressor/kernel"),
        (TokenClassificationConfig(labels=LABELS), "token_classifier/bias"),
    ],
)
def test_no_bias_on_a_pooled_vector(objective, path):
    model = build_model(DecoderConfig(**SMALL), objective, 10)
    assert model.weights[-1].path == path


@pytest.mark.parametrize("objective", [MaskedConfig(), SpanQAConfig()])
def test_what_must_see_both_sides_is_refused(objective):
    with pytest.raises(ConfigError, match=r"does not go with model\.kind=decoder"):
        build_model(DecoderConfig(**SMALL), objective, 10)


def test_poolers_of_the_other_kind_of_model_are_refused():
    with pytest.raises(ConfigError, match="first token sees no other"):
        DecoderConfig(pooler=PoolerConfig())
    for kind in ("last", "end_token"):
        with pytest.raises(ConfigError, match=f"pooler.kind={kind} is of decoders"):
            EncoderConfig(pooler=PoolerConfig(kind=kind))
