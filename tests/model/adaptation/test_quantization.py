"""Rounded weights: how far off the answers are, and whether a file keeps them."""

import keras
import numpy as np
import pytest

from tests.model.block_stacks import (
    VOCABULARY_SIZE,
    logits,
    small_model,
    train,
)
from transbeam.configs.base.errors import ConfigError
from transbeam.model.adaptation.lora import (
    enable_lora,
    load_adapters,
    merge_lora,
    save_adapters,
)
from transbeam.model.adaptation.quantization import quantise, weight_bytes
from transbeam.model.layers.embeddings import TokenEmbedding
from transbeam.model.layers.lm_head import VocabularyProjection

MODES = ("int8", "int4")
each_mode = pytest.mark.parametrize("mode", MODES)


def quantised(mode="int8", **options) -> keras.Model:
    model = small_model(**{"num_heads": 2, "num_key_value_heads": 1, **options})
    quantise(model, mode)
    return model


def dtypes(model) -> dict[str, str]:
    return {weight.path: weight.dtype for weight in model.weights}


def to_float(layer) -> np.ndarray:
    """The kernel that an int8 layer stands for."""
    kernel = keras.ops.convert_to_numpy(layer.kernel).astype("float32")
    return kernel / keras.ops.convert_to_numpy(layer.kernel_scale)


def test_a_dense_layer_multiplies_by_what_its_whole_numbers_stand_for():
    model = small_model(num_heads=2)
    kernel = keras.ops.convert_to_numpy(
        model.get_layer("encoder_layer_0").self_attention.query.kernel
    )
    quantise(model, "int8")
    layer = model.get_layer("encoder_layer_0").self_attention.query
    step = np.abs(kernel).max(axis=0) / 127
    assert (np.abs(to_float(layer) - kernel) <= step / 2 + 1e-6).all()
    # Inputs are not rounded: the product is exact.
    x = np.random.default_rng(3).normal(size=(2, 5, 16)).astype("float32")
    expected = x @ to_float(layer) + keras.ops.convert_to_numpy(layer.bias)
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


# Of logits of size 4 (standard deviation 1.4); half a step of the largest weight is
# 0.4% of it in int8, and 7% in int4, through eight products.
@pytest.mark.parametrize(
    ("mode", "furthest", "gated"),
    [
        ("int8", 0.08, False),
        ("int4", 0.9, True),
        pytest.param("int8", 0.08, True, marks=pytest.mark.thorough),
        pytest.param("int4", 0.9, False, marks=pytest.mark.thorough),
    ],
)
def test_answers_stay_close(mode, furthest, gated):
    exact = logits(small_model(num_heads=2, gated=gated))
    rounded = logits(quantised(mode, num_key_value_heads=2, gated=gated))
    difference = np.abs(rounded - exact).max()
    assert 1e-4 < difference < furthest
    if mode == "int8":
        assert (rounded.argmax(-1) == exact.argmax(-1)).mean() >= 0.9


@pytest.mark.parametrize(
    "mode", ["int8", pytest.param("int4", marks=pytest.mark.thorough)]
)
def test_saved_and_loaded_it_answers_the_same(mode, tmp_path):
    model = quantised(mode, num_layers=2, gated=True)
    answers = logits(model)
    for path in (tmp_path / "once.keras", tmp_path / "twice.keras"):
        model.save(path)
        model = keras.saving.load_model(path)
        np.testing.assert_array_equal(logits(model), answers)
    fresh = quantised(mode, num_layers=2, gated=True)
    assert dtypes(model) == dtypes(fresh)

    model.save_weights(tmp_path / "model.weights.h5")
    for weight in fresh.weights:
        weight.assign(np.zeros(weight.shape))
    fresh.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(logits(fresh), answers)


def test_what_is_rounded_and_what_is_not():
    found = dtypes(quantised("int4"))
    whole = {path for path, dtype in found.items() if dtype == "int8"}
    block = "encoder_layer_0"
    matrices = [f"self_attention/{n}" for n in ("query", "key", "value", "output")]
    matrices += ["feedforward/intermediate", "feedforward/output"]
    assert whole == {
        "token_embedding/embeddings",
        *(f"{block}/{name}/kernel" for name in matrices),
        *(f"{block}/{name}/kernel_zero" for name in matrices),
    }


def test_some_layers_only():
    model = small_model(num_heads=2)
    quantise(model, "int8", targets=["*/feedforward/*"])
    whole = [path for path, dtype in dtypes(model).items() if dtype == "int8"]
    assert len(whole) == 2
    assert all("/feedforward/" in path for path in whole)


def test_bytes():
    model = keras.Sequential([keras.Input((256,)), keras.layers.Dense(512)])
    numbers = 256 * 512
    assert weight_bytes(model) == 4 * (numbers + 512)
    quantise(model, "int8")
    assert weight_bytes(model) == numbers + 4 * 512 + 4 * 512  # bias, scale
    model = keras.Sequential([keras.Input((256,)), keras.layers.Dense(512)])
    quantise(model, "int4")
    blocks = 2 * 512 * (4 + 1)  # scale, zero
    assert weight_bytes(model) == numbers // 2 + 4 * 512 + blocks + 4 * 256


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("scale", [False, True])
def test_a_table_of_tokens_by_hand(policy, scale):
    table = TokenEmbedding(
        3, 2, vocabulary_multiple=4, scale=scale, dtype=policy, name="table"
    )
    table.build(None)
    table.embeddings.assign([[0.3, -1.27], [0.0, 0.0], [-12.7, 0.04], [9, 9]])
    table.quantize("int8")
    whole = keras.ops.convert_to_numpy(table.embeddings).tolist()
    assert whole[:3] == [[30, -127], [0, 0], [-127, 0]]
    assert [w.path for w in table.weights] == [
        "table/embeddings",
        "table/embeddings_scale",
    ]
    tolerance = 1e-5 if policy == "float32" else 0.01

    rows = np.array([[0.3, -1.27], [0, 0], [-12.7, 0]])
    found = keras.ops.convert_to_numpy(table(np.array([[2, 0, 1]]))).astype("float32")
    expected = rows[[2, 0, 1]] * (2**0.5 if scale else 1)
    np.testing.assert_allclose(found[0], expected, rtol=tolerance, atol=1e-6)
    x = np.array([[[1.0, 2.0]]], "float32")
    found = keras.ops.convert_to_numpy(table(x, reverse=True))
    assert found.dtype == "float32"
    np.testing.assert_allclose(found, x @ rows.T, rtol=tolerance, atol=1e-6)


def test_a_table_of_scores_is_rounded_by_token(tmp_path):
    inputs = keras.Input((4,))
    projection = VocabularyProjection(VOCABULARY_SIZE, seed=3, name="logits")
    model = keras.Model(inputs, projection(inputs))
    x = np.random.default_rng(1).normal(size=(9, 4)).astype("float32")
    kernel = keras.ops.convert_to_numpy(projection.kernel)
    quantise(model, "int4")
    scale = 127 / np.abs(kernel).max(axis=0)
    expected = x @ (np.round(kernel * scale) / scale)
    np.testing.assert_allclose(model(x), expected, rtol=0, atol=1e-6)
    model.save(tmp_path / "scores.keras")
    copy = keras.saving.load_model(tmp_path / "scores.keras")
    np.testing.assert_array_equal(copy(x), model(x))


@pytest.mark.parametrize(
    "mode", [pytest.param("int8", marks=pytest.mark.thorough), "int4"]
)
def test_adapters_beside_whole_numbers(mode, tmp_path):
    model = quantised(mode)
    answers = logits(model)
    enable_lora(model, rank=3)
    np.testing.assert_array_equal(logits(model), answers)
    kept = [keras.ops.convert_to_numpy(w) for w in model.non_trainable_weights]
    train(model)
    assert np.abs(logits(model) - answers).max() > 0.01
    for weight, old in zip(model.non_trainable_weights, kept, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(weight), old)

    with pytest.raises(ConfigError, match=f"its kernel is {mode}"):
        merge_lora(model)
    save_adapters(model, tmp_path / "adapters.safetensors")
    fresh = quantised(mode)
    load_adapters(fresh, tmp_path / "adapters.safetensors")
    np.testing.assert_array_equal(logits(fresh), logits(model))


def test_wrong_is_refused():
    model = small_model(num_heads=2)
    with pytest.raises(ConfigError, match="mode='int2' is not one of"):
        quantise(model, "int2")
    with pytest.raises(ConfigError, match="fits the path of no layer that can be"):
        quantise(model, targets=["*/feedforwards/*"])
    enable_lora(model, rank=2)
    with pytest.raises(ConfigError, match="has an adapter; merge it"):
        quantise(model)
    with pytest.raises(ConfigError, match="is quantised already \\(int8\\)"):
        quantise(quantised("int8"))


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_float16_is_refused_before_anything_is_changed(mode):
    model = small_model(num_heads=2, dtype="float16")
    before = logits(model)
    with pytest.raises(ConfigError, match="token_embedding computes in float16"):
        quantise(model, mode)
    np.testing.assert_array_equal(logits(model), before)
