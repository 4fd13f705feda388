"""The head: only the masked positions, the tied table, float32 logits."""

from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

from tests.model.compiling import ON_JAX, compiled_on_jax
from tests.model.conftest import VOCABULARY_SIZE, small_config
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.block import DenseFeedForwardConfig
from transbeam.configs.schema.model import EncoderConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.build import build_model
from transbeam.model.encoder import build_encoder


@pytest.fixture
def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "token_ids": rng.integers(0, VOCABULARY_SIZE, (2, 6)).astype("int32"),
        "padding_mask": np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], "int32"),
        "segment_ids": np.array([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 0]], "int32"),
        "masked_positions": np.array([[5, 0, 0], [3, 1, 1]], "int32"),
    }


def logits(model: keras.Model, inputs: dict[str, np.ndarray]) -> np.ndarray:
    return keras.ops.convert_to_numpy(compiled_on_jax(model)(inputs)["logits"])


def test_masked_logits_are_those_of_all_positions_picked(config, inputs, randomise):
    model = randomise(build_model(config, MaskedConfig(), VOCABULARY_SIZE))
    everywhere = np.tile(np.arange(6, dtype="int32"), (2, 1))
    full = logits(model, {**inputs, "masked_positions": everywhere})
    picked = logits(model, inputs)
    expected = np.take_along_axis(
        full, inputs["masked_positions"][:, :, np.newaxis], axis=1
    )
    assert picked.shape == (2, 3, VOCABULARY_SIZE)
    np.testing.assert_allclose(picked, expected, rtol=0, atol=1e-5)


def test_head_against_numpy(inputs, randomise):
    config = small_config(activation="relu")
    model = randomise(build_model(config, MaskedConfig(), VOCABULARY_SIZE))
    encoder = build_encoder(config, VOCABULARY_SIZE)
    w = {weight.path: weight.numpy() for weight in model.weights}
    encoder.set_weights([w[weight.path] for weight in encoder.weights])

    features = {k: v for k, v in inputs.items() if k in encoder.input}
    sequence = np.asarray(encoder(features)["sequence_output"], "float64")
    x = np.stack([sequence[0, [5, 0, 0]], sequence[1, [3, 1, 1]]])
    x = np.maximum(x @ w["head_dense/kernel"] + w["head_dense/bias"], 0)
    deviation = np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    x = (x - x.mean(-1, keepdims=True)) / deviation
    x = x * w["head_norm/gamma"] + w["head_norm/beta"]
    expected = x @ w["token_embedding/embeddings"].T + w["head_bias/bias"]
    np.testing.assert_allclose(logits(model, inputs), expected, rtol=0, atol=1e-4)


def test_the_head_adds_these_weights_and_no_second_table(config):
    model = build_model(config, MaskedConfig(), VOCABULARY_SIZE)
    encoder = build_encoder(config, VOCABULARY_SIZE)
    encoder_paths = [w.path for w in encoder.weights]
    paths = [w.path for w in model.weights]
    assert paths[: len(encoder_paths)] == encoder_paths
    assert paths[len(encoder_paths) :] == [
        "head_dense/kernel",
        "head_dense/bias",
        "head_norm/gamma",
        "head_norm/beta",
        "head_bias/bias",
    ]
    tables = [
        w for w in model.weights if VOCABULARY_SIZE in w.shape and len(w.shape) > 1
    ]
    assert [w.path for w in tables] == ["token_embedding/embeddings"]


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_logits_are_float32_under_every_policy(policy, config, inputs):
    exact = build_model(config, MaskedConfig(), VOCABULARY_SIZE)
    model = build_model(config, MaskedConfig(), VOCABULARY_SIZE, dtype=policy)
    assert model.output["logits"].dtype == "float32"
    outputs = logits(model, inputs)
    assert outputs.dtype == "float32"
    # Same seed, same weights. Logits are of size 0.1; bfloat16 keeps 8 bits.
    np.testing.assert_allclose(outputs, logits(exact, inputs), rtol=0, atol=4e-3)


@pytest.mark.parametrize("packed", [False, True])
def test_saved_and_loaded_it_answers_the_same(
    packed, config, inputs, randomise, tmp_path
):
    model = randomise(
        build_model(config, MaskedConfig(), VOCABULARY_SIZE, packed=packed)
    )
    model.save(tmp_path / "model.keras")
    copy = keras.saving.load_model(tmp_path / "model.keras")
    inputs["document_ids"] = inputs["padding_mask"]
    inputs["position_ids"] = np.tile(np.arange(6, dtype="int32"), (2, 1))
    inputs = {name: inputs[name] for name in model.input}
    np.testing.assert_array_equal(logits(copy, inputs), logits(model, inputs))
    # Still one table after loading: what is put into it shows at both ends.
    table = copy.get_layer("token_embedding").embeddings
    table.assign(np.zeros(table.shape))
    np.testing.assert_array_equal(
        logits(copy, inputs)[0, 0], copy.get_layer("head_bias").bias.numpy()
    )


def test_it_learns_a_batch_by_heart(inputs):
    config = small_config(num_layers=1, dropout=0.1)
    model = build_model(config, MaskedConfig(), VOCABULARY_SIZE)
    model.compile(
        keras.optimizers.Adam(0.01),
        loss={"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
        jit_compile=ON_JAX,
    )
    labels = np.array([[7, 3, 3], [21, 9, 9]], "int32")
    steps = 60
    model.fit(
        {name: np.tile(array, (steps, 1)) for name, array in inputs.items()},
        {"logits": np.tile(labels, (steps, 1))},
        batch_size=2,
        shuffle=False,
        verbose=0,
    )
    found = logits(model, inputs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    assert float(loss(labels, found)) < 0.1
    assert (found.argmax(-1) == labels).all()


BERT_BASE = EncoderConfig(
    num_layers=12,
    hidden_dim=768,
    max_sequence_length=512,
    num_segments=2,
    attention=FullAttentionConfig(num_heads=12),
    feedforward=DenseFeedForwardConfig(intermediate_dim=3072),
)


def test_bert_base_has_the_published_number_of_weights():
    def build():
        # Nothing is allocated: inside the scope a variable has a shape and no value.
        with keras.StatelessScope(initialize_variables=False):
            encoder = build_encoder(BERT_BASE, 30_522)
            return encoder, build_model(BERT_BASE, MaskedConfig(), 30_522)

    # Keras keeps a list of them for each thread, and the next scope initializes them.
    with ThreadPoolExecutor(1) as thread:
        encoder, model = thread.submit(build).result()
    pooler = 768 * 768 + 768
    assert encoder.count_params() == 109_482_240 - pooler == 108_891_648
    head = (768 * 768 + 768) + 2 * 768 + 30_522
    assert model.count_params() == 108_891_648 + head
