"""Circuits against whole matrices, and against examples by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from tests.model.conftest import VOCABULARY_SIZE, small_config
from tests.model.inspect.decoders import HEADS, LAYERS, WIDTH, make_decoder
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.attention import FullAttentionConfig
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.model.adaptation.quantization import quantise
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.circuits import (
    HeadWeights,
    compute_composition_baseline,
    compute_composition_scores,
    compute_copying_score,
    compute_copying_scores,
    compute_eigenvalues,
    compute_singular_values,
    read_head_weights,
    read_vocabulary_circuit,
)
from transbeam.model.seq2seq import build_seq2seq

FIRST, SECOND = (f"decoder_layer_{index}/self_attention" for index in range(LAYERS))
POST = {"placement": "post", "epsilon": 1e-5}


def numpy(x) -> np.ndarray:
    return ops.convert_to_numpy(x)


def random_heads(generator, heads, width, rank) -> HeadWeights:
    shapes = [(heads, width, rank)] * 3 + [(heads, rank, width)]
    return HeadWeights(*(generator.normal(size=shape) for shape in shapes))


def heads_with(*, qk=None, ov=None) -> HeadWeights:
    """One head with the given circuits; the identity for those not given."""
    one = np.eye(2)
    first, second = (one if x is None else np.array(x, float) for x in (qk, ov))
    return HeadWeights(*(x[None] for x in (first, one, second, one)))


# === Matrices of a model ===
def test_heads_read_and_write_what_the_layer_does(randomise):
    """A post-norm block: a score and an output from the matrices of one head alone."""
    config = small_config(
        num_segments=0, attention=FullAttentionConfig(num_heads=4, output_bias=False)
    )
    model = randomise(build_encoder(config, VOCABULARY_SIZE))
    layer = model.get_layer("encoder_layer_1").self_attention
    weights = read_head_weights(model)["encoder_layer_1/self_attention"]
    for projection in (layer.query, layer.key, layer.value):
        projection.bias.assign(np.zeros(16))
    x = np.random.default_rng(0).normal(size=(1, 1, 16)).astype("float32")
    query, key = (numpy(layer.split(f(x))) for f in (layer.query, layer.key))
    left, right = weights.qk
    scores = np.einsum("d,hde,e->h", x[0, 0], left @ right, x[0, 0])
    np.testing.assert_allclose(scores, (query * key).sum(-1)[0, 0], rtol=1e-3)
    left, right = weights.ov
    # A single token attends to itself, with all of its heads.
    mask = {"padding_mask": np.ones((1, 1), "int32")}
    moved = np.einsum("d,hde->e", x[0, 0], left @ right)
    np.testing.assert_allclose(moved, numpy(layer(x, mask))[0, 0], rtol=1e-3, atol=1e-4)


def test_shared_keys_belong_to_their_group(randomise):
    """Query heads 0 and 1 use the first keys and values, 2 and 3 the second ones."""
    attention = FullAttentionConfig(num_heads=4, num_key_value_heads=2)
    config = small_config(num_segments=0, attention=attention)
    model = randomise(build_encoder(config, VOCABULARY_SIZE))
    weights = read_head_weights(model)["encoder_layer_0/self_attention"]
    layer = model.get_layer("encoder_layer_0").self_attention
    for name in ("key", "value"):
        kernel = numpy(getattr(layer, name).kernel)
        found = getattr(weights, name)
        for head, group in enumerate((0, 0, 1, 1)):
            expected = kernel[:, 4 * group : 4 * group + 4]
            np.testing.assert_array_equal(found[head], expected)


def test_the_norm_is_folded_in(randomise):
    model = make_decoder(randomise)
    block = model.get_layer("decoder_layer_1")
    weights = read_head_weights(model)[SECOND]
    assert weights.query.shape == (HEADS, WIDTH, WIDTH // HEADS)
    x = np.random.default_rng(0).normal(size=(1, 5, WIDTH)).astype("float32")
    y = numpy(block.self_attention_norm(x) - block.self_attention_norm.beta)
    expected = y @ numpy(block.self_attention.query.kernel)
    scale = numpy(ops.std(x, axis=-1))
    found = np.einsum("td,hdk->thk", x[0], weights.query).reshape(5, -1)
    np.testing.assert_allclose(found / scale[0][:, None], expected[0], atol=1e-4)
    np.testing.assert_allclose(weights.output.mean(-1), 0, atol=1e-6)


def test_both_stacks_of_an_encoder_decoder():
    config = Seq2SeqModelConfig(
        num_layers=1,
        num_decoder_layers=2,
        hidden_dim=8,
        attention=FullAttentionConfig(num_heads=2),
    )
    model = build_seq2seq(config, VOCABULARY_SIZE)
    assert list(read_head_weights(model, "encoder_")) == [
        "encoder_layer_0/self_attention"
    ]
    assert list(read_head_weights(model, "decoder_")) == [FIRST, SECOND]
    with pytest.raises(ConfigError, match="no blocks"):
        read_head_weights(build_encoder(small_config(), VOCABULARY_SIZE), "decoder_")


def test_quantized_layers_are_refused(randomise):
    model = make_decoder(randomise)
    quantise(model, "int8")
    with pytest.raises(ConfigError, match="is quantized"):
        read_head_weights(model)


def test_adapters_are_refused(randomise):
    model = make_decoder(randomise)
    model.get_layer("decoder_layer_1").self_attention.value.enable_lora(2)
    with pytest.raises(ConfigError, match="value has an adapter"):
        read_head_weights(model)


# === Spectra ===
@given(st.integers(0, 1000), st.integers(1, 7), st.integers(1, 5))
def test_spectra_are_those_of_the_whole_matrix(seed, width, rank):
    generator = np.random.default_rng(seed)
    left, right = (
        generator.normal(size=s) for s in ((2, width, rank), (2, rank, width))
    )
    found = compute_singular_values(left, right)
    expected = np.linalg.svd(left @ right, compute_uv=False)
    np.testing.assert_allclose(found, expected[:, : found.shape[1]], atol=1e-8)
    np.testing.assert_allclose(expected[:, found.shape[1] :], 0, atol=1e-8)
    # Eigenvalues have no order; their power sums are traces.
    found = compute_eigenvalues(left, right)
    for power in (1, 2, 3):
        expected = np.trace(
            np.linalg.matrix_power(left @ right, power), axis1=1, axis2=2
        )
        np.testing.assert_allclose((found**power).sum(1), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        ([[2, 0], [0, 1]], 1.0),
        ([[1, 2], [2, 1]], 0.5),
        ([[0, -1], [1, 0]], 0.0),
        ([[1, -2], [1, 1]], 0.577),
        ([[1, 3], [0, 1]], 1.0),
        ([[0, 0], [0, 0]], 0.0),
    ],
)
def test_copying_by_hand(matrix, expected):
    score = compute_copying_score(compute_eigenvalues(np.eye(2), np.array(matrix)))
    assert score == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rms": True, "key_heads": 1},
        {"tie_embeddings": False},
        {"embedding_dim": 5},
        {"embedding_dim": 5, "tie_embeddings": False, "vocabulary_multiple": 64},
    ],
    ids=["tied", "grouped", "untied", "narrow", "narrow and untied"],
)
def test_copying_of_the_whole_circuit(randomise, changes):
    """The `V x V` matrix, from layers called one after the other."""
    model = make_decoder(randomise, **changes)
    circuit = read_vocabulary_circuit(model)
    assert circuit.shape == (WIDTH, WIDTH)
    weights = read_head_weights(model)[FIRST]
    found = compute_copying_scores(weights, circuit)
    assert found.shape == (HEADS,)

    layers = {layer.name: layer for layer in model.layers}
    embedded = numpy(layers["token_embedding"].embeddings)[:VOCABULARY_SIZE]
    if "embedding_projection" in layers:
        embedded = embedded @ numpy(layers["embedding_projection"].kernel)
    head = layers.get("logits_projection", lambda x: x)
    last = layers.get("logits") or (
        lambda x: layers["token_embedding"](x, reverse=True)
    )
    gain = numpy(layers["final_norm"].gamma)
    left, right = weights.ov
    for index in range(HEADS):
        moved = embedded @ left[index] @ right[index]
        if not changes.get("rms"):
            moved = moved - moved.mean(1, keepdims=True)
        logits = numpy(last(head((moved * gain)[None].astype("float32"))))[0]
        values = np.linalg.eigvals(logits.astype("float64"))
        values = values[np.argsort(-np.abs(values))][: WIDTH // HEADS]
        expected = values.real.sum() / np.abs(values).sum()
        assert found[index] == pytest.approx(expected, abs=1e-4)


# === Composition ===
@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([[1, 0], [0, 0]], [[1, 1], [1, 1]], 0.7071),
        ([[1, 0], [0, 0]], [[0, 0], [0, 5]], 0.0),
        ([[1, 0], [0, 1]], [[1, 0], [0, 1]], 0.7071),
        ([[0, 0], [0, 0]], [[1, 0], [0, 1]], 0.0),
    ],
)
def test_composition_by_hand(left, right, expected):
    scores = compute_composition_scores(heads_with(ov=left), heads_with(qk=right))
    assert scores["q"][0, 0] == pytest.approx(expected, abs=5e-5)


def test_composition_of_queries_is_not_that_of_keys():
    scores = compute_composition_scores(
        heads_with(ov=[[1, 2], [0, 0]]), heads_with(qk=[[0, 1], [3, 0]])
    )
    assert scores["q"][0, 0] == pytest.approx(0.860, abs=5e-4)
    assert scores["k"][0, 0] == pytest.approx(0.510, abs=5e-4)


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 6))
def test_composition_of_whole_matrices(seed, width, rank):
    generator = np.random.default_rng(seed)
    earlier = random_heads(generator, 3, width, rank)
    later = random_heads(generator, 2, width, rank)
    scores = compute_composition_scores(earlier, later)
    for first in range(3):
        written = earlier.value[first] @ earlier.output[first]
        for second in range(2):
            qk = later.query[second] @ later.key[second].T
            ov = later.value[second] @ later.output[second]
            for kind, read in (("q", qk), ("k", qk.T), ("v", ov)):
                expected = np.linalg.norm(written @ read) / (
                    np.linalg.norm(written) * np.linalg.norm(read)
                )
                assert scores[kind].shape == (3, 2)
                np.testing.assert_allclose(scores[kind][first, second], expected)
                assert scores[kind][first, second] <= 1 + 1e-12


@pytest.mark.parametrize("rank", [4, 16, 64])
def test_baseline(rank):
    generator = np.random.default_rng(0)
    earlier, later = (random_heads(generator, 12, 64, rank) for _ in range(2))
    for score in compute_composition_scores(earlier, later).values():
        mean_square = np.sqrt(np.mean(score**2))
        assert mean_square == pytest.approx(compute_composition_baseline(64), rel=0.08)
