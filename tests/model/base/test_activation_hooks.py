"""Hooks see each named activation, and what they return takes its place."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from keras import ops

from tests.model.conftest import VOCABULARY_SIZE, small_config
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.model.base.activation_hooks import hooked, recorded, replaced
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.model.seq2seq import build_seq2seq

INPUTS = {
    "token_ids": np.array([[1, 2, 3]], "int32"),
    "padding_mask": np.ones((1, 3), "int32"),
}
FIRST, LAST = "encoder_layer_0", "encoder_layer_1"


@pytest.fixture
def encoder(randomise):
    return randomise(build_encoder(small_config(num_segments=0), VOCABULARY_SIZE))


def run(model, inputs=INPUTS):
    return ops.convert_to_numpy(model(inputs)["sequence_output"])


def test_names_and_shapes(encoder):
    with recorded() as seen:
        run(encoder)
    assert {path: tuple(x.shape) for path, x in seen.items()} == {
        f"{block}/{name}": shape
        for block in (FIRST, LAST)
        for name, shape in {
            "self_attention/queries": (1, 3, 2, 8),
            "self_attention/keys": (1, 3, 2, 8),
            "self_attention/heads": (1, 3, 2, 8),
            "self_attention_residual/update": (1, 3, 16),
            "feedforward/units": (1, 3, 24),
            "feedforward_residual/update": (1, 3, 16),
            "output": (1, 3, 16),
        }.items()
    }


def test_endings(encoder):
    with recorded("/heads", "/output") as seen:
        run(encoder)
    assert list(seen) == [
        f"{block}/{name}"
        for block in (FIRST, LAST)
        for name in ("self_attention/heads", "output")
    ]


def test_cross_attention_has_names_as_well(randomise):
    config = Seq2SeqModelConfig(num_layers=1, hidden_dim=16)
    model = randomise(build_seq2seq(config, VOCABULARY_SIZE))
    inputs = {
        f"{side}_{name}": x
        for side in ("encoder", "decoder")
        for name, x in INPUTS.items()
    }
    with recorded("/heads") as seen:
        run(model, inputs)
    assert [path.removesuffix("/heads") for path in seen] == [
        "encoder_layer_0/self_attention",
        "decoder_layer_0/self_attention",
        "decoder_layer_0/cross_attention",
    ]


def test_queries_and_keys_give_the_probabilities(encoder):
    path = f"{LAST}/self_attention"
    with recorded("/queries", "/keys") as seen:
        run(encoder)
    query, key = (
        ops.convert_to_numpy(seen[f"{path}/{name}"]) for name in ("queries", "keys")
    )
    scores = np.einsum("bthk,bshk->bhts", query, key) / np.sqrt(8)
    found = attention_probabilities(encoder, INPUTS)[path]
    expected = ops.convert_to_numpy(ops.softmax(scores))
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, atol=1e-6)


def test_a_block_without_updates_is_its_norms(encoder):
    """A replaced activation is what the rest of the model computes with."""
    with recorded("layer_0/output") as seen:
        run(encoder)
    paths = [
        f"{LAST}/{part}_residual/update" for part in ("self_attention", "feedforward")
    ]
    with hooked(replaced(dict.fromkeys(paths, ops.zeros_like))):
        found = run(encoder)
    block = encoder.get_layer(LAST)
    expected = block.feedforward_norm(
        block.self_attention_norm(seen[f"{FIRST}/output"])
    )
    np.testing.assert_array_equal(found, ops.convert_to_numpy(expected))


def test_without_a_change_the_outputs_are_the_same(encoder):
    expected = run(encoder)
    with hooked(lambda path, value: value):
        np.testing.assert_array_equal(run(encoder), expected)


def test_other_threads_are_not_hooked(encoder):
    expected = run(encoder)
    with hooked(lambda path, value: value * 0), ThreadPoolExecutor(1) as pool:
        np.testing.assert_array_equal(pool.submit(run, encoder).result(), expected)
        assert np.abs(run(encoder) - expected).max() > 0.1
