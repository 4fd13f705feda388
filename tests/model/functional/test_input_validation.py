"""Wrong inputs of a built model are refused by name, before Keras makes them fit."""

import keras
import numpy as np
import pytest

from tests.model.compiling import ON_JAX, compiled, compiled_on_jax
from tests.model.conftest import tensorflow_only
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    PatchesConfig,
    Seq2SeqModelConfig,
)
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.build import build_model
from transbeam.model.decoder import build_decoder
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.hidden_states import with_hidden_states
from transbeam.model.seq2seq import build_seq2seq

SMALL = {"num_layers": 1, "hidden_dim": 8, "max_sequence_length": 8, "dropout": 0.0}


def ones(*shape: int, dtype: str = "int32") -> np.ndarray:
    return np.ones(shape, dtype)


def texts(prefix: str = "", length: int = 6) -> dict[str, np.ndarray]:
    names = ("token_ids", "padding_mask")
    return {f"{prefix}{name}": ones(2, length) for name in names}


@pytest.fixture(scope="module")
def encoder() -> keras.Model:
    return build_encoder(EncoderConfig(**SMALL, num_segments=2), 10)


@pytest.fixture(scope="module")
def vit() -> keras.Model:
    patches = PatchesConfig(image_size=4, patch_size=2, num_channels=1)
    return build_encoder(EncoderConfig(**SMALL, patches=patches), 10)


WRONG = {
    "float ids": (
        {"token_ids": ones(2, 6, dtype="float32")},
        r"token_ids has dtype float32 \(and shape \(2, 6\)\); expected whole numbers",
    ),
    "float mask": ({"padding_mask": np.ones((2, 6))}, "padding_mask has dtype float"),
    "bool ids": ({"token_ids": ones(2, 6, dtype="bool")}, "token_ids has dtype bool"),
    "an axis too many": (
        {"token_ids": ones(2, 6, 1)},
        r"token_ids has shape \(2, 6, 1\); expected \(batch, length\)",
    ),
    "an axis too few": (
        {"token_ids": ones(6)},
        r"token_ids has shape \(6,\); expected \(batch, length\)",
    ),
    "another length": (
        {"segment_ids": ones(2, 5)},
        r"segment_ids has shape \(2, 5\); expected that of padding_mask, \(2, 6\)",
    ),
    "a length that would broadcast": (
        {"padding_mask": ones(2, 1)},
        r"\(2, 6\); expected that of padding_mask, \(2, 1\)",
    ),
    "rows that would broadcast": (
        {"segment_ids": ones(1, 6)},
        r"segment_ids has shape \(1, 6\); expected as many rows as that of padding",
    ),
    "a list": ({"token_ids": [[1, 2]]}, "expects 3 named input"),
    "one too many": ({"labels": ones(2)}, r"inputs has \['labels', 'padding_mask'"),
    "too long for the positions": (
        {name: ones(2, 9) for name in ("token_ids", "padding_mask", "segment_ids")},
        r"position_embedding: inputs has shape \(2, 9, 8\); expected at most 8 tokens",
    ),
    "no token": (
        {"token_ids": ones(2, 6) * 10},
        r"token_ids, of shape \(2, 6\), go from 10 to 10; expected from 0 to 9",
    ),
    "a token below 0": ({"token_ids": -ones(2, 6)}, "go from -1 to -1"),
    "no segment": ({"segment_ids": ones(2, 6) * 2}, "expected from 0 to 1"),
    "more than 32 bits": (
        {"token_ids": ones(2, 6, dtype="int64") << 32},
        "from 4294967296 to 4294967296; expected numbers that int32 can hold",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_input_is_refused_by_name(encoder, name):
    wrong, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        encoder({**texts(), "segment_ids": ones(2, 6), **wrong})


def test_a_missing_input_is_refused_by_name(encoder):
    with pytest.raises(ValueError, match='Missing data for input "segment_ids"'):
        encoder(texts())


@pytest.mark.parametrize("name", ["float ids", "an axis too many", "another length"])
@pytest.mark.parametrize("way", ["graph", "predict"])
def test_what_shapes_and_dtypes_say_is_refused_in_graphs_too(name, way):
    # One of its own: on JAX, Keras leaves no weights behind when `predict` fails.
    model = build_encoder(EncoderConfig(**SMALL, num_segments=2), 10)
    wrong, message = WRONG[name]
    ways = {
        "graph": compiled(lambda x: model(x)),
        "predict": lambda x: model.predict(x, verbose=0),
    }
    with pytest.raises(ValueError, match=message):
        ways[way]({**texts(), "segment_ids": ones(2, 6), **wrong})


def test_symbols_are_no_way_around(encoder):
    inputs = {
        name: keras.Input((None,), name=name, dtype="float32") for name in encoder.input
    }
    model = keras.Model(inputs, encoder(inputs))
    with pytest.raises(ValueError, match="has dtype float32"):
        model({name: np.ones((2, 6), "float32") for name in inputs})


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint32"])
def test_whole_numbers_of_any_width_and_bool_masks_are_read(encoder, dtype):
    inputs = {**texts(), "segment_ids": ones(2, 6)}
    inputs["padding_mask"][:, 4:] = 0
    expected = compiled_on_jax(encoder)(inputs)["sequence_output"]
    given = {name: x.astype(dtype) for name, x in inputs.items()}
    given["padding_mask"] = given["padding_mask"].astype(bool)
    answer = compiled_on_jax(encoder)(given)["sequence_output"]
    np.testing.assert_array_equal(answer, expected)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (ones(2, 4, 4, 1, dtype="float32"), r"image, of shape .* expected uint8"),
        (ones(2, 4, 4, 1), "has dtype int32; expected uint8"),
        (
            ones(2, 4, 4, dtype="uint8"),
            r"image has shape \(2, 4, 4\); expected \(batch",
        ),
        (ones(2, 8, 8, 1, dtype="uint8"), "'image' of layer 'encoder' is inc"),
        (ones(2, 4, 4, 3, dtype="uint8"), r"\(2, 4, 4, 3\); expected \(batch, 4, 4, 1"),
    ],
)
def test_a_wrong_image_is_refused(vit, image, message):
    with pytest.raises(ValueError, match=message):
        vit({"image": image})


def test_the_two_sequences_of_a_pair_have_lengths_of_their_own():
    model = build_seq2seq(Seq2SeqModelConfig(**SMALL), 10)
    inputs = {**texts("encoder_", 4), **texts("decoder_", 6)}
    assert model(inputs)["logits"].shape == (2, 6, 10)
    with pytest.raises(ValueError, match=r"decoder_token_ids has shape \(2, 4\)"):
        model({**inputs, "decoder_token_ids": ones(2, 4)})


def test_the_models_with_heads_check_too():
    model = build_model(EncoderConfig(**SMALL), MaskedConfig(), 10)
    inputs = {**texts(), "masked_positions": ones(2, 3)}
    assert model(inputs)["logits"].shape == (2, 3, 10)
    with pytest.raises(ValueError, match=r"masked_tokens: positions, .* to 6; exp"):
        model({**inputs, "masked_positions": ones(2, 3) * 6})
    with pytest.raises(ValueError, match="masked_positions has dtype float"):
        model({**inputs, "masked_positions": np.ones((2, 3))})
    with pytest.raises(ValueError, match="token_ids has dtype float"):
        with_hidden_states(model)({**inputs, "token_ids": np.ones((2, 6))})


def test_a_packed_decoder_checks_too():
    model = build_decoder(DecoderConfig(**SMALL), 10, packed=True)
    inputs = {name: ones(2, 6) for name in model.input}
    assert model(inputs)["logits"].shape == (2, 6, 10)
    with pytest.raises(ValueError, match=r"position_ids has shape \(2, 5\)"):
        model({**inputs, "position_ids": ones(2, 5)})


def test_saved_and_loaded_it_still_checks(encoder, tmp_path):
    encoder.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    inputs = {**texts(), "segment_ids": ones(2, 6)}
    np.testing.assert_array_equal(
        compiled_on_jax(loaded)(inputs)["sequence_output"],
        compiled_on_jax(encoder)(inputs)["sequence_output"],
    )
    with pytest.raises(ValueError, match="token_ids has dtype float"):
        loaded({**inputs, "token_ids": np.ones((2, 6))})


def test_it_trains_as_any_model():
    model = build_model(EncoderConfig(**SMALL), MaskedConfig(), 10)
    loss = {"logits": keras.losses.SparseCategoricalCrossentropy(True)}
    model.compile("sgd", loss, jit_compile=ON_JAX)
    inputs = {**texts(), "masked_positions": ones(2, 3)}
    history = model.fit(inputs, {"logits": ones(2, 3)}, epochs=2, verbose=0)
    assert history.history["loss"][1] < history.history["loss"][0]


@tensorflow_only
def test_it_is_exported_as_any_model(encoder, tmp_path):
    import tensorflow as tf

    encoder.export(tmp_path / "model", verbose=False)
    inputs = {**texts(), "segment_ids": ones(2, 6)}
    served = tf.saved_model.load(tmp_path / "model")
    answer, expected = (model(inputs) for model in (served.serve, encoder))
    np.testing.assert_allclose(
        answer["sequence_output"], expected["sequence_output"], atol=1e-6
    )
